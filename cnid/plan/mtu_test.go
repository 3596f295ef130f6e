// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/journal"
)

func TestPodsWithIPv6KeepWhatItNeeds(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("fd00::1/64")
	for _, c := range []struct {
		carried int
		addrs   []netip.Prefix
		want    int
	}{
		{1450, []netip.Prefix{v4, v6}, 1450},
		{1280, []netip.Prefix{v6}, 1280},
		{1230, []netip.Prefix{v4}, 1230},
		{1230, []netip.Prefix{v6}, 1280},
		{1230, []netip.Prefix{v4, v6}, 1280},
	} {
		if got := PodMTU(c.carried, c.addrs); got != c.want {
			t.Errorf("%v where %d bytes are carried: %d, want %d", c.addrs, c.carried, got, c.want)
		}
	}
}

func TestAnInterfaceKnowsTheGatewaysOfItsSubnet(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for _, gateways := range [][]netip.Addr{{v4, v6}, {v6, v4}} {
		got := Programmed(journal.Record{Interface: journal.Interface{Gateways: gateways}}, attach.HookHostEnd).Interfaces[0]
		if got.Gateway4 != v4 || got.Gateway6 != v6 {
			t.Errorf("of %v: %v and %v", gateways, got.Gateway4, got.Gateway6)
		}
	}
}
