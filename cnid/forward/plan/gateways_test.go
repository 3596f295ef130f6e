// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

func TestPlan_Interface_SubnetGatewaysKnown(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for _, gateways := range [][]netip.Addr{{v4, v6}, {v6, v4}} {
		got := Programmed(journal.Record{Interface: journal.Interface{Gateways: gateways}}, ifdriver.HookHostEnd).Interfaces[0]
		if got.Gateway4 != v4 || got.Gateway6 != v6 {
			t.Errorf("of %v: %v and %v", gateways, got.Gateway4, got.Gateway6)
		}
	}
}
