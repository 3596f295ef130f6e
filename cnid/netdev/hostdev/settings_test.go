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
	var rows strings.Builder
	for _, s := range hostdev.Settings {
		fmt.Fprintf(&rows, "| %s | %s | %d | %s |\n", s.Family, s.Name, s.Value, s.Reason)
	}
	if !strings.Contains(string(text), "| --- | --- | --- | --- |\n"+rows.String()+"\n") {
		t.Errorf("docs/security/node-settings.md does not have exactly these rows:\n%s", rows.String())
	}
}
