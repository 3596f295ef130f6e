// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
)

func TestFree_TwoFamilies_FewestCounted(t *testing.T) {
	reserve := func(row *store.Subnet, ranges ...string) *store.Subnet {
		for i := 0; i < len(ranges); i += 2 {
			row.Reserved = append(row.Reserved, store.AddrRange{First: netip.MustParseAddr(ranges[i]), Last: netip.MustParseAddr(ranges[i+1])})
		}
		return row
	}
	tests := map[string]struct {
		subnet *store.Subnet
		held   []string
		want   int64
	}{
		"IPv4 without network, broadcast and gateway": {subnet: subnet(1, "net1", "10.0.1.0/29"), want: 5},
		"IPv6 without anycast and gateway":            {subnet: subnet(1, "net1", "fd00::/120"), want: 254},
		"both families":                               {subnet: subnet(1, "net1", "10.0.1.0/24", "fd00::/64"), want: 253},
		"huge":                                        {subnet: subnet(1, "net1", "fd00::/64"), want: 1 << 53},
		"held":                                        {subnet: subnet(1, "net1", "10.0.1.0/29"), held: []string{"10.0.1.2", "10.0.1.5"}, want: 3},
		"reserved twice, and beyond the range": {
			subnet: reserve(subnet(1, "net1", "10.0.1.0/29"), "10.0.1.2", "10.0.1.4", "10.0.1.4", "10.0.2.9"), want: 0,
		},
		"held and reserved afterwards": {
			subnet: reserve(subnet(1, "net1", "10.0.1.0/29"), "10.0.1.2", "10.0.1.3"), held: []string{"10.0.1.2"}, want: 3,
		},
		"reserved in another family": {
			subnet: reserve(subnet(1, "net1", "10.0.1.0/29"), "fd00::1", "fd00::9"), want: 5,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rows := []any{test.subnet}
			for _, ip := range test.held {
				rows = append(rows, held("blue", "net1", ip, "n1"))
			}
			newStore(t, rows...).View(func(tx store.ReadTx) {
				if got := ipam.Free(tx, test.subnet); got != test.want {
					t.Errorf("Free is %d, want %d", got, test.want)
				}
				if got := used(tx, test.subnet); got != int64(len(test.held)) {
					t.Errorf("Used is %d, want %d", got, len(test.held))
				}
			})
		})
	}
}

func TestMAC_Address_Derived(t *testing.T) {
	if got, want := ipam.MAC(7, ips("10.10.1.12", "fd00::2")), "02:00:0a:0a:01:0c"; got != want {
		t.Errorf("MAC is %s, want %s", got, want)
	}
	blue, red, other := ipam.MAC(7, ips("fd00::2")), ipam.MAC(8, ips("fd00::2")), ipam.MAC(7, ips("fd00::3"))
	if blue == red || blue == other {
		t.Errorf("MACs %s, %s, %s of different VNIs and addresses are alike", blue, red, other)
	}
	if got := ipam.MAC(7, ips("fd00::2")); got != blue || got[:3] != "06:" {
		t.Errorf("MAC is %s, then %s, want the same twice, starting 06:", blue, got)
	}
}

func TestChooseVNI_UsedOrRequested_FreeOrRefused(t *testing.T) {
	claim := func(vni uint32) *store.VNIClaim { return &store.VNIClaim{VNI: vni, VPC: "red", VPCUID: "red"} }
	tests := map[string]struct {
		rows       []any
		want       uint32
		taken      []uint32
		held       []uint32
		wantVNI    uint32
		wantReason string
	}{
		"behind the VPCs that have one":     {wantVNI: 9},
		"behind the highest claim":          {rows: []any{claim(20), claim(30)}, wantVNI: 31},
		"behind one that was found taken":   {taken: []uint32{40, 12}, wantVNI: 41},
		"not one that another VPC asks for": {rows: []any{&store.VPC{Name: "green", WantVNI: 9}}, wantVNI: 10},
		"lowest free one at the end":        {rows: []any{claim(ipam.MaxVNI), claim(1)}, wantVNI: 2},
		"behind one that a node holds":      {held: []uint32{50, 20}, wantVNI: 51},
		"lowest one that no node holds":     {rows: []any{claim(ipam.MaxVNI)}, held: []uint32{1, 2}, wantVNI: 3},
		"asked for by number, held":         {held: []uint32{77}, want: 77, wantVNI: 77},
		"asked for":                         {want: 77, wantVNI: 77},
		"asked for again by who had it":     {want: 7, wantVNI: 7},
		"asked for, but claimed":            {rows: []any{claim(77)}, want: 77, wantReason: v1alpha1.VNITakenReason},
		"asked for, but found taken":        {taken: []uint32{77}, want: 77, wantReason: v1alpha1.VNITakenReason},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			newStore(t, test.rows...).View(func(tx store.ReadTx) {
				got, err := ipam.ChooseVNI(tx, ipam.VNIRequest{Want: test.want, Taken: test.taken, Held: test.held})
				var refusal *ipam.Error
				if errors.As(err, &refusal) != (test.wantReason != "") || refusal != nil && refusal.Reason != test.wantReason {
					t.Fatalf("error %v, want reason %q", err, test.wantReason)
				}
				if got != test.wantVNI {
					t.Errorf("VNI is %d, want %d", got, test.wantVNI)
				}
			})
		})
	}
}

// used is how many addresses of a subnet are held, both families together.
func used(tx store.ReadTx, subnet *store.Subnet) int64 {
	v4, v6 := store.CountAddressesBySubnet(tx, subnet.Name)
	return v4 + v6
}
