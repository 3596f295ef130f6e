// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ifdriver_test

import (
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

func TestAttachMTU_IPv6Pod_MinimumKept(t *testing.T) {
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
		if got := ifdriver.PodMTU(c.carried, c.addrs); got != c.want {
			t.Errorf("%v where %d bytes are carried: %d, want %d", c.addrs, c.carried, got, c.want)
		}
	}
}
