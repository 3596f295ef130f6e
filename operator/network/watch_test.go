// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"testing"

	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
)

func TestNetworkRequests_SubnetServesOrStops_Requested(t *testing.T) {
	subnet := func(change func(*store.Subnet)) *store.Subnet {
		row := operatortest.Subnet("s", "v", "s", 0, "10.0.0.0/24")
		row.Ready = true
		change(row)
		return row
	}
	as := subnet(func(*store.Subnet) {})
	for _, tc := range []struct {
		name     string
		old, now *store.Subnet
		want     int
	}{
		{"it is new", nil, as, 1},
		{"it is gone", as, nil, 1},
		{"another has its name", as, subnet(func(s *store.Subnet) { s.UID = "other" }), 1},
		{"it is refused", as, subnet(func(s *store.Subnet) { s.Ready = false }), 1},
		{"it is being deleted", as, subnet(func(s *store.Subnet) { s.Deleting = true }), 1},
		{"its counters change", as, subnet(func(s *store.Subnet) { s.ResourceVersion, s.Message = "9", "7 free" }), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, operatortest.Network("blue", "a", "n", "v", 0)).View(func(tx store.ReadTx) {
				if got := ofSubnet(tx, tc.old, tc.now); len(got) != tc.want {
					t.Errorf("asked for %v, want %d", got, tc.want)
				}
			})
		})
	}
}
