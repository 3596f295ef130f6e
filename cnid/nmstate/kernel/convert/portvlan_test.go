// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPortVLANChanges_Table_DifferenceComputed(t *testing.T) {
	for _, c := range []struct {
		name       string
		have, want VIDs
		changes    Changes
	}{
		{"the same", VIDs{1: native, 5: 0}, VIDs{1: native, 5: 0}, Changes{}},
		{"a range", nil, VIDs{5: 0, 6: 0, 7: 0, 9: 0}, Changes{Added: []Run{{5, 7}, {9, 9}}}},
		{"without tag instead of with", VIDs{5: 0, 6: 0}, VIDs{5: native, 6: 0}, Changes{Removed: []Run{{5, 5}}, Untagged: []uint16{5}}},
		{"with tag instead of without", VIDs{1: native}, VIDs{1: 0}, Changes{Removed: []Run{{1, 1}}, Added: []Run{{1, 1}}}},
		{"none", VIDs{1: native, 2: 0, 3: 0}, nil, Changes{Removed: []Run{{1, 3}}}},
	} {
		got := ChangesOf(c.have, c.want)
		if len(got.Untagged) == 0 {
			got.Untagged = nil
		}
		if diff := cmp.Diff(c.changes, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
