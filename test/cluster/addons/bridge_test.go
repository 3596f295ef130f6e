// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"strings"
	"testing"
)

func TestTheReferenceNetworkHasARangePerNodeAndFamily(t *testing.T) {
	raw, err := bridgeConflist(podRanges(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"10.244.2.0/24"`, `"fd44:0:0:2::/64"`, `"0.0.0.0/0"`, `"::/0"`, `"host-local"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s is missing in:\n%s", want, raw)
		}
	}
}
