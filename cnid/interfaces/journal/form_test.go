// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/netif"
)

// ofRelease01 are parts of records as release 0.1 writes them.
const (
	linkOfRelease01   = `"mtu":1400,"parent":"ens4","vlan":7,"mode":"bridge","routes":[{"dst":"198.51.100.0/24","gateway":"192.0.2.1","table":300}],"rules":[{"from":"192.0.2.7/32","table":300}],"ipv6":"on"`
	deviceOfRelease01 = `"mtu":0,"pool":"x/vf","pci":"0000:03:10.1","vf":{"vlan":7,"qos":3,"proto":"802.1ad","spoofCheck":true,"linkState":"auto","minTxRate":5}`
)

// TestRecord_FormOfRelease01_KeptBothWays: a node may go back to the release.
func TestRecord_FormOfRelease01_KeptBothWays(t *testing.T) {
	five, three := 5, 3
	for name, c := range map[string]struct {
		text string
		want netif.Config
	}{
		"an interface on a VLAN": {linkOfRelease01, netif.Config{
			Parent: "ens4", VLAN: 7, Mode: "bridge", MTU: 1400, IPv6: netif.IPv6On,
			Routes: []netif.Route{{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.1"), Table: 300}},
			Rules:  []netif.Rule{{From: netip.MustParsePrefix("192.0.2.7/32"), Table: 300}},
		}},
		"a device of a pool": {deviceOfRelease01, netif.Config{
			Pool: "x/vf", VLAN: 7,
			VF: &netif.VF{SpoofCheck: netif.On, Trust: netif.Off, LinkState: "auto", MinTxRate: &five, QoS: &three, Proto: "802.1ad"},
		}},
	} {
		var rec Record
		if err := json.Unmarshal([]byte("{"+c.text+"}"), &rec); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		addrs := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
		prefixes := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
		if diff := cmp.Diff(c.want, rec.Config, addrs, prefixes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		written, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]any
		if err := json.Unmarshal([]byte("{"+c.text+"}"), &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &after); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"mtu", "parent", "vlan", "vxlan", "mode", "routes", "rules", "ipv6", "pool", "pci", "vf"} {
			if diff := cmp.Diff(before[key], after[key]); diff != "" {
				t.Errorf("%s: the key %s (-read +written):\n%s", name, key, diff)
			}
		}
	}
}
