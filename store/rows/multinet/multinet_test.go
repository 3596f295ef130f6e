// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet_test

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

func stored(t *testing.T, rows ...*multinet.Network) *store.Store {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if err := s.Update(func(tx store.Tx) error { return multinet.Put(tx, row) }); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func network(group, kind, namespace string, age int64) *multinet.Network {
	return &multinet.Network{
		Meta: store.Meta{UID: group + "/" + kind + "/" + namespace + "/net", Created: time.Unix(age, 0)},
		Ref:  multinet.Ref{Group: group, Kind: kind, Namespace: namespace, Name: "net"},
	}
}

func TestNetwork_TwoGroups_OlderServes(t *testing.T) {
	young := network("danm.io", multinet.KindDanmNet, "a", 5)
	old := network("danm.k8s.io", multinet.KindDanmNet, "a", 3)
	other := network("danm.io", multinet.KindTenantNetwork, "a", 1)
	stored(t, young, old, other).View(func(tx store.ReadTx) {
		if got := multinet.Find(tx, multinet.KindDanmNet, "a", "net"); got != old {
			t.Errorf("%v serves, want %v", got, old)
		}
		if got := multinet.Find(tx, multinet.KindTenantNetwork, "a", "net"); got != other {
			t.Errorf("%v serves, want %v", got, other)
		}
		for _, none := range []struct{ kind, namespace, name string }{
			{multinet.KindDanmNet, "a", "ne"}, {multinet.KindDanmNet, "", "net"}, {multinet.KindClusterNetwork, "a", "net"}, {multinet.KindDanmNet, "A", "net"},
		} {
			if got := multinet.Find(tx, none.kind, none.namespace, none.name); got != nil {
				t.Errorf("%v is found by %v", got, none)
			}
		}
		if got := multinet.ByDomain(tx, old.Domain()); got != old {
			t.Errorf("domain %s is of %v", old.Domain(), got)
		}
	})
}

func TestSegment_Network_ParentAndVNI(t *testing.T) {
	for _, tc := range []struct {
		name string
		of   multinet.Network
		want string
	}{
		{"no parent", multinet.Network{VLAN: 300}, ""},
		{"a device alone", multinet.Network{HostDevice: "ens4"}, "ens4/"},
		{"a VLAN", multinet.Network{HostDevice: "ens4", VLAN: 300}, "ens4/vlan/300"},
		{"a VXLAN of the same number", multinet.Network{HostDevice: "ens4", VXLAN: 300}, "ens4/vxlan/300"},
		{"a pool", multinet.Network{DevicePool: "nokia.k8s.io/ens4", VLAN: 300}, "nokia.k8s.io/ens4/vlan/300"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.of.Segment(); got != tc.want {
				t.Errorf("segment %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNetworks_BySegment_OldestFirst(t *testing.T) {
	on := func(n *multinet.Network, vlan uint32) *multinet.Network {
		n.HostDevice, n.VLAN = "ens4", vlan
		return n
	}
	young, old := on(network("danm.io", multinet.KindDanmNet, "a", 5), 300), on(network("danm.io", multinet.KindClusterNetwork, "", 3), 300)
	untagged := on(network("danm.io", multinet.KindDanmNet, "b", 1), 0)
	longer := on(network("danm.io", multinet.KindDanmNet, "c", 1), 3000)
	stored(t, young, old, untagged, longer, network("danm.io", multinet.KindDanmNet, "d", 1)).View(func(tx store.ReadTx) {
		if got := multinet.OnSegment(tx, "ens4/vlan/300"); !slices.Equal(got, []*multinet.Network{old, young}) {
			t.Errorf("VLAN 300 is of %v", got)
		}
		if got := multinet.OnParent(tx, "ens4"); len(got) != 4 {
			t.Errorf("%d networks on ens4, want 4", len(got))
		}
		if got := multinet.OnSegment(tx, ""); len(got) != 0 {
			t.Errorf("%d networks on no segment", len(got))
		}
	})
}

func TestHostVNIClaims_ByDevice_InNumberOrder(t *testing.T) {
	s := stored(t)
	for _, row := range []*multinet.HostVNIClaim{
		{Name: "vlan-300.ens4", Type: multinet.VLAN, VNI: 300, Device: "ens4", NetworkUID: "a"},
		{Name: "vlan-20.ens4", Type: multinet.VLAN, VNI: 20, Device: "ens4", NetworkUID: "b"},
		{Name: "vxlan-20.ens4", Type: multinet.VXLAN, VNI: 20, Device: "ens4", NetworkUID: "c"},
		{Name: "vlan-20.ens41", Type: multinet.VLAN, VNI: 20, Device: "ens41", NetworkUID: "a"},
	} {
		if err := s.Update(func(tx store.Tx) error { return multinet.PutHostVNIClaim(tx, row) }); err != nil {
			t.Fatal(err)
		}
	}
	s.View(func(tx store.ReadTx) {
		var vnis []uint32
		for _, claim := range multinet.HostVNIClaimsOn(tx, multinet.VLAN, "ens4") {
			vnis = append(vnis, claim.VNI)
		}
		if diff := cmp.Diff([]uint32{20, 300}, vnis); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := multinet.HostVNIClaimOf(tx, multinet.VXLAN, 20, "ens4"); got == nil || got.NetworkUID != "c" {
			t.Errorf("VXLAN 20 on ens4 is %+v", got)
		}
		if got := multinet.HostVNIClaimOf(tx, multinet.VLAN, 2, "ens4"); got != nil {
			t.Errorf("VLAN 2 on ens4 is %+v", got)
		}
		if got := multinet.HostVNIClaimsByNetwork(tx, "a"); len(got) != 2 {
			t.Errorf("%d claims of one network, want 2", len(got))
		}
	})
}

func TestCheckNetworkID_EachID_OnlyUsableAccepted(t *testing.T) {
	for _, tc := range []struct {
		id, networkType string
		withVNI, good   bool
	}{
		{"external", "ipvlan", true, true},
		{"abcdefghij", "ipvlan", true, true},
		{"abcdefghijk", "ipvlan", true, false},
		{"abcdefghijk", "ipvlan", false, true},
		{"abcdefghijkl", "sriov", false, false},
		{"flannel1234567", "flannel", false, true},
		{"../../../../etc/evil", "flannel", false, false},
		{"..", "flannel", false, false},
		{"a/b", "flannel", false, false},
		{"a b", "flannel", false, false},
		{"", "flannel", false, false},
		{"-a", "flannel", false, false},
		{"a\x00", "flannel", false, false},
		{"10-flannel.conf_1", "flannel", false, true},
		{"alvred", "ipvlan", true, false},
		{"alioth_v", "macvlan", true, false},
		{"alvred", "ipvlan", false, true},
		{"alioth", "flannel", false, true},
		{"salvation", "ipvlan", true, true},
	} {
		if why := multinet.CheckNetworkID(tc.id, tc.networkType, tc.withVNI); (why == "") != tc.good {
			t.Errorf("%q of type %s, with a VNI %v: %q", tc.id, tc.networkType, tc.withVNI, why)
		}
	}
}

func TestNetworkCursor_NetworkReplacedOrGone_Deleted(t *testing.T) {
	first := network("danm.io", multinet.KindDanmNet, "a", 3)
	second := *first
	second.UID = "successor"
	s := stored(t, first)
	ip := netip.MustParseAddr("10.0.0.2")
	for _, gone := range []struct {
		domain string
		change func(tx store.Tx) error
	}{
		{first.Domain(), func(tx store.Tx) error { return multinet.Put(tx, &second) }},
		{second.Domain(), func(tx store.Tx) error { multinet.Delete(tx, second.Ref, second.UID); return nil }},
	} {
		if err := s.Update(func(tx store.Tx) error { return store.SetNetworkCursor(tx, gone.domain, ip) }); err != nil {
			t.Fatal(err)
		}
		if err := s.Update(gone.change); err != nil {
			t.Fatal(err)
		}
		s.View(func(tx store.ReadTx) {
			if left := store.NetworkCursor(tx, gone.domain, ipfamily.IPv4); left.IsValid() {
				t.Errorf("%s has the cursor %s", gone.domain, left)
			}
		})
	}
}

func TestNetwork_SeveralClaims_LowestNumberUsed(t *testing.T) {
	s := stored(t)
	red, blue := store.NetworkRef{Kind: multinet.KindDanmNet, Name: "red", UID: "red"}, store.NetworkRef{Kind: multinet.KindDanmNet, Name: "blue", UID: "blue"}
	err := s.Update(func(tx store.Tx) error {
		return errors.Join(
			multinet.PutDomainClaim(tx, &multinet.DomainClaim{Meta: store.Meta{UID: "a"}, Number: 1<<24 + 256, Network: red}),
			multinet.PutDomainClaim(tx, &multinet.DomainClaim{Meta: store.Meta{UID: "b"}, Number: 1<<24 + 2, Network: red}),
			multinet.PutDomainClaim(tx, &multinet.DomainClaim{Meta: store.Meta{UID: "c"}, Number: 1 << 24, Network: blue}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	numbers := func() (red, blue, none uint32) {
		s.View(func(tx store.ReadTx) {
			red, blue, none = multinet.NumberOf(tx, "red"), multinet.NumberOf(tx, "blue"), multinet.NumberOf(tx, "re")
		})
		return red, blue, none
	}
	if r, b, n := numbers(); r != 1<<24+2 || b != 1<<24 || n != 0 {
		t.Errorf("numbers are %d, %d and %d", r, b, n)
	}
	for uid, gone := range map[string]bool{"a successor": false, "b": true} {
		err := s.Update(func(tx store.Tx) error {
			if multinet.DeleteDomainClaim(tx, 1<<24+2, uid) != gone {
				t.Errorf("the claim with the UID %q is deleted: %v", uid, !gone)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if r, _, _ := numbers(); r != 1<<24+256 {
		t.Errorf("the other number is %d", r)
	}
}
