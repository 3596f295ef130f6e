// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostdev_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/cnid/netdev/hostdev"
)

// TestTheDocumentHasTheTableOfSettings compares the rows in their order.
func TestTheDocumentHasTheTableOfSettings(t *testing.T) {
	text, err := os.ReadFile("../../../docs/security/node-settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var own, uplinks, pods strings.Builder
	for _, s := range hostdev.Settings {
		fmt.Fprintf(&own, "| %s | %s | %d | %s |\n", s.Family, s.Name, s.Value, s.Reason)
	}
	for _, s := range hostdev.UplinkSettings {
		on := map[bool]string{true: "on", false: "off"}[s.On]
		fmt.Fprintf(&uplinks, "| %s | %s | %s | %s |\n", s.Family, s.Name, on, s.Reason)
	}
	for _, s := range hostdev.PodSettings {
		fmt.Fprintf(&pods, "| %s | %s | %d | %s |\n", s.Family, s.Name, s.Value, s.Reason)
	}
	for _, rows := range []string{own.String(), uplinks.String(), pods.String()} {
		if !strings.Contains(string(text), "| --- | --- | --- | --- |\n"+rows+"\n") {
			t.Errorf("docs/security/node-settings.md does not have exactly these rows:\n%s", rows)
		}
	}
}
