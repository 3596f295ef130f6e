// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// TestTenantProfile_DANMCases_AsReferenced has the cases of section 7.4, 7.6 and 7.7 of the DANM reference by
// number. The cases of bitmaps and update conflicts (61 to 64) have no place here: a claim is an
// object.
func TestTenantProfile_DANMCases_AsReferenced(t *testing.T) {
	held := tenants(func(n *multinet.Network) { n.HostDevice, n.VLAN, n.Profiled = "ens4", 200, true })
	younger := devices()
	younger.UID, younger.Name, younger.Created = "uid-younger", "a-younger", younger.Created.Add(5)
	younger.Devices = nil
	for _, tc := range []struct {
		name    string
		net     *multinet.Network
		rows    []any
		taken   []number
		claim   number
		profile profile
		reason  string
		text    string
	}{
		{name: "56: no TenantConfig", net: tenants(on("ens4")), reason: v1alpha1.TenantConfigNotFoundReason},
		{name: "96: no TenantConfig for a static type", net: tenants(func(n *multinet.Network) { n.Type = "flannel" }), reason: v1alpha1.TenantConfigNotFoundReason},
		{name: "56: of two the older serves", net: tenants(on("ens4")), rows: []any{younger, devices()}, claim: number{multinet.VLAN, 200, "ens4"}},
		{name: "57: the first number", net: tenants(on("ens4")), rows: []any{devices()}, claim: number{multinet.VLAN, 200, "ens4"}},
		{name: "58: the last number", net: tenants(on("ens4")), rows: append(claims(200, 509), devices()), claim: number{multinet.VLAN, 510, "ens4"}},
		{name: "59, 99: none is left", net: tenants(on("ens4")), rows: append(claims(200, 510), devices()), reason: v1alpha1.VNIExhaustedReason, text: "larger vniRange"},
		{name: "60, 97: an unknown device", net: tenants(on("hupak")), rows: []any{devices()}, reason: v1alpha1.DeviceNotOfferedReason, text: `does not offer "hupak"`},
		{name: "97: an unknown pool", net: tenants(func(n *multinet.Network) { n.DevicePool = "a.b/c" }), rows: []any{devices()}, reason: v1alpha1.DeviceNotOfferedReason},
		{name: "a pool by the name of a device", net: tenants(func(n *multinet.Network) { n.DevicePool = "ens4" }), rows: []any{devices()}, reason: v1alpha1.DeviceNotOfferedReason},
		{
			name: "98: only pools are offered, and none is named", net: tenants(nil),
			rows:   []any{&multinet.TenantConfig{Group: "danm.io", Name: "t", Devices: []multinet.HostDevice{{Name: pool4}}}},
			reason: v1alpha1.DeviceNotOfferedReason, text: "device_pool",
		},
		{name: "100: a VXLAN", net: tenants(on("ens6")), rows: []any{devices()}, claim: number{multinet.VXLAN, 1200, "ens6"}},
		{
			name: "100: a pool", net: tenants(func(n *multinet.Network) { n.DevicePool, n.Type = pool4, multinet.TypeSRIOV }), rows: []any{devices()},
			claim: number{multinet.VLAN, 1500, pool4},
		},
		{
			name: "a pool with VXLANs alone, for virtual functions", net: tenants(func(n *multinet.Network) { n.DevicePool, n.Type = pool4, multinet.TypeSRIOV }),
			rows: []any{&multinet.TenantConfig{Group: "danm.io", Name: "t", Devices: []multinet.HostDevice{
				{Name: pool4, VNIType: multinet.VXLAN, VNIs: []multinet.VNIRange{{First: 7, Last: 9}}},
			}}},
			reason: v1alpha1.DeviceNotOfferedReason,
		},
		{
			name: "101: no device is named, and one is offered", net: tenants(nil),
			rows: []any{&multinet.TenantConfig{Group: "danm.io", Name: "t", Devices: []multinet.HostDevice{
				{Name: pool4},
				{Name: "ens4", VNIType: multinet.VLAN, VNIs: []multinet.VNIRange{{First: 7, Last: 9}}},
			}}},
			claim: number{multinet.VLAN, 7, "ens4"},
		},
		{name: "a device without numbers", net: tenants(on("ens7")), rows: []any{devices()}, profile: profile{device: "ens7", networkID: "net"}},
		{
			name: "102: the NetworkID of a static type", net: tenants(func(n *multinet.Network) { n.Type, n.NetworkID = "flannel", "hupak" }), rows: []any{devices()},
			profile: profile{networkID: "flannel1234567", idGiven: true},
		},
		{
			name: "102: none is given", net: tenants(func(n *multinet.Network) { n.Type, n.NetworkID = "flannel", "" }), rows: []any{devices()},
			profile: profile{networkID: "flannel1234567", idGiven: true},
		},
		{
			name: "103: the NetworkID of a dynamic type", net: tenants(func(n *multinet.Network) { n.Type, n.NetworkID, n.HostDevice = "macvlan", "", "ens7" }), rows: []any{devices()},
			profile: profile{device: "ens7", networkID: "mac", idGiven: true},
		},
		{name: "104: a static type that networkIds lack", net: tenants(func(n *multinet.Network) { n.Type = "calico" }), rows: []any{devices()}, reason: v1alpha1.TypeNotServedReason, text: `"calico"`},
		{name: "no NetworkID: nothing is claimed", net: tenants(func(n *multinet.Network) { n.HostDevice, n.NetworkID = "ens4", "" }), rows: []any{devices()}, reason: v1alpha1.NetworkIDMissingReason},
		{
			name: "86: a NetworkID too long for a number: nothing is claimed", net: tenants(func(n *multinet.Network) { n.HostDevice, n.NetworkID = "ens4", "abcdefghijk" }), rows: []any{devices()},
			reason: v1alpha1.InvalidReason, text: "10 bytes",
		},
		{name: "a path as NetworkID", net: tenants(func(n *multinet.Network) { n.HostDevice, n.NetworkID = "ens7", "../evil" }), rows: []any{devices()}, reason: v1alpha1.InvalidReason},
		{name: "92: a VLAN that a tenant writes", net: tenants(func(n *multinet.Network) { n.HostDevice, n.VLAN = "ens4", 200 }), rows: []any{devices()}, reason: v1alpha1.InvalidReason, text: "remove them"},
		{name: "92: of a static type", net: tenants(func(n *multinet.Network) { n.Type, n.VLAN = "flannel", 200 }), rows: []any{devices()}, reason: v1alpha1.InvalidReason},
		{name: "a device that a tenant writes for a static type", net: tenants(func(n *multinet.Network) { n.Type, n.HostDevice = "flannel", "eth0" }), rows: []any{devices()}, reason: v1alpha1.DeviceNotOfferedReason},
		{name: "a TenantConfig that can't be used", net: tenants(on("ens4")), rows: []any{&multinet.TenantConfig{Group: "danm.io", Name: "t", Invalid: "x"}}, reason: v1alpha1.TenantConfigNotFoundReason, text: "can't be used"},
		{
			name: "a number of an administrator's network", net: tenants(on("ens4")),
			rows:  []any{devices(), net(multinet.KindClusterNetwork, "", "admin", 0, func(n *multinet.Network) { n.HostDevice, n.VLAN = "ens4", 200 })},
			claim: number{multinet.VLAN, 500, "ens4"},
		},
		{
			name: "a VXLAN of that number differs", net: tenants(on("ens4")),
			rows:  []any{devices(), net(multinet.KindClusterNetwork, "", "admin", 0, func(n *multinet.Network) { n.HostDevice, n.VXLAN = "ens4", 200 })},
			claim: number{multinet.VLAN, 200, "ens4"},
		},
		{
			name: "a number that another tenant has only written", net: tenants(on("ens4")),
			rows:  []any{devices(), net(multinet.KindTenantNetwork, "b", "n", 0, func(n *multinet.Network) { n.HostDevice, n.VLAN = "ens4", 200 })},
			claim: number{multinet.VLAN, 200, "ens4"},
		},
		{
			name: "a number whose claim is lost", net: tenants(on("ens4")),
			rows: []any{devices(), net(multinet.KindTenantNetwork, "b", "n", 0, func(n *multinet.Network) {
				n.HostDevice, n.VLAN, n.Profiled = "ens4", 200, true
			})},
			claim: number{multinet.VLAN, 500, "ens4"},
		},
		{name: "numbers that turned out to be taken", net: tenants(on("ens4")), rows: []any{devices()}, taken: []number{{multinet.VLAN, 200, "ens4"}, {multinet.VLAN, 500, "ens4"}}, claim: number{multinet.VLAN, 501, "ens4"}},
		{
			name: "a claim before a crash is adopted", net: tenants(on("ens4")), rows: []any{devices(), claimed(held, multinet.VLAN, 505, "ens4")},
			profile: profile{"ens4", multinet.VLAN, 505, "net", false},
		},
		{
			name: "a claim without a TenantConfig", net: held, rows: []any{claimed(held, multinet.VLAN, 200, "ens4")},
			profile: profile{"ens4", multinet.VLAN, 200, "net", false}, reason: v1alpha1.ReadyReason,
		},
		{
			name: "the TenantConfig gives another NetworkID now", net: held,
			rows:    []any{claimed(held, multinet.VLAN, 200, "ens4"), &multinet.TenantConfig{Group: "danm.io", Name: "t", NetworkIDs: map[string]string{"ipvlan": "other"}}},
			profile: profile{"ens4", multinet.VLAN, 200, "net", false}, reason: v1alpha1.ReadyReason,
		},
		{name: "a lost claim is made again as it was", net: held, rows: []any{devices()}, claim: number{multinet.VLAN, 200, "ens4"}},
		{name: "a lost claim that another network has", net: held, rows: append(claims(200, 200), devices()), claim: number{multinet.VLAN, 500, "ens4"}},
		{
			name: "the spec was changed to a number of another network", net: tenants(func(n *multinet.Network) { n.HostDevice, n.VLAN, n.Profiled = "ens4", 500, true }),
			rows:    append(claims(500, 500), devices(), claimed(held, multinet.VLAN, 200, "ens4")),
			profile: profile{"ens4", multinet.VLAN, 200, "net", false},
		},
		{
			name: "the spec was changed to another device", net: tenants(func(n *multinet.Network) { n.HostDevice, n.VLAN, n.Profiled = "eth0", 200, true }),
			rows:    []any{devices(), claimed(held, multinet.VLAN, 200, "ens4")},
			profile: profile{"ens4", multinet.VLAN, 200, "net", false},
		},
		{
			name: "a device without numbers was changed", net: tenants(func(n *multinet.Network) { n.HostDevice, n.Profiled = "eth0", true }), rows: []any{devices()},
			reason: v1alpha1.DeviceNotOfferedReason,
		},
		{
			name: "the number was removed from the spec", net: tenants(func(n *multinet.Network) { n.HostDevice, n.Profiled = "ens4", true }),
			rows:    []any{devices(), claimed(held, multinet.VLAN, 200, "ens4")},
			profile: profile{"ens4", multinet.VLAN, 200, "net", false},
		},
		{
			name: "the TenantConfig gives a static type another NetworkID now", net: tenants(func(n *multinet.Network) {
				n.Type, n.NetworkID, n.NetworkIDGiven, n.Profiled = "flannel", "evil", true, true
			}), rows: []any{devices()},
			reason: v1alpha1.TypeNotServedReason, text: "create the network again",
		},
		{
			name: "a static NetworkID that an earlier version wrote was set back", net: tenants(func(n *multinet.Network) { n.Type, n.NetworkID, n.Profiled = "flannel", "mine", true }), rows: []any{devices()},
			profile: profile{networkID: "flannel1234567", idGiven: true}, reason: v1alpha1.ReadyReason,
		},
		{name: "Invalid", net: tenants(func(n *multinet.Network) { n.HostDevice, n.Invalid = "ens4", "cidr" }), rows: []any{devices()}, reason: v1alpha1.InvalidReason, text: "cidr"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, append(tc.rows, tc.net)...).View(func(tx store.ReadTx) {
				d := decide(tx, tc.net, tc.taken, Limits{})
				if tc.claim != (number{}) {
					tc.reason = v1alpha1.VNIPendingReason
					if d.claim == nil || *d.claim != tc.claim {
						t.Errorf("claims %v, want %v", d.claim, tc.claim)
					}
				} else if d.claim != nil {
					t.Errorf("claims %v", d.claim)
				}
				if tc.profile != (profile{}) {
					if d.profile == nil || *d.profile != tc.profile {
						t.Errorf("profile %+v, want %+v: %s", d.profile, tc.profile, d.Message)
					}
				} else if d.profile != nil {
					t.Errorf("profile %+v", d.profile)
				}
				if tc.reason != "" && (d.Reason != tc.reason || !strings.Contains(d.Message, tc.text)) || len(d.release) > 0 || d.empty {
					t.Errorf("%s: %s; release %v; want %s with %q", d.Reason, d.Message, d.release, tc.reason, tc.text)
				}
			})
		})
	}
}

// TestTenantProfile_WrittenAndRead_Equal: the row of a network with the status that the operator writes
// is the network that the operator has decided about.
func TestTenantProfile_WrittenAndRead_Equal(t *testing.T) {
	for name, tc := range map[string]struct {
		spec danmv1.NetworkSpec
		p    profile
		// want has the fields that the profile gives; the rest of a row comes from the spec.
		want multinet.Network
	}{
		"a device and a VLAN": {
			danmv1.NetworkSpec{NetworkID: "net"},
			profile{"ens4", multinet.VLAN, 200, "net", false},
			multinet.Network{Type: "ipvlan", NetworkID: "net", HostDevice: "ens4", VLAN: 200},
		},
		"a VXLAN of another device": {
			danmv1.NetworkSpec{NetworkID: "net", NetworkType: "MACVLAN", Options: danmv1.NetworkOptions{HostDevice: "ens5"}},
			profile{"ens4", multinet.VXLAN, 7, "net", false},
			multinet.Network{Type: "macvlan", NetworkID: "net", HostDevice: "ens4", VXLAN: 7},
		},
		"a pool": {
			danmv1.NetworkSpec{NetworkID: "net", NetworkType: "sriov", Options: danmv1.NetworkOptions{DevicePool: pool4}},
			profile{pool4, multinet.VLAN, 1500, "net", false},
			multinet.Network{Type: "sriov", NetworkID: "net", DevicePool: pool4, VLAN: 1500},
		},
		"a NetworkID": {
			danmv1.NetworkSpec{NetworkID: "hupak", NetworkType: "flannel"},
			profile{networkID: "flannel1234567", idGiven: true},
			multinet.Network{Type: "flannel", NetworkID: "flannel1234567", NetworkIDGiven: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := &danmv1.TenantNetwork{Spec: tc.spec}
			row := tenantNetworks.Convert(object)
			setStatus(&object.Status, 1, decision{profile: &tc.p, networkType: row.Type})
			got := tenantNetworks.Convert(object)
			if !got.SameWire(&tc.want) || got.NetworkIDGiven != tc.want.NetworkIDGiven || !got.Profiled || got.DevicePool != tc.want.DevicePool || got.Invalid != "" {
				t.Errorf("the row is %+v, want %+v", got, tc.want)
			}
			if planned := tc.p.on(row); !planned.SameWire(got) || planned.NetworkIDGiven != got.NetworkIDGiven {
				t.Errorf("the operator decides about %+v, and reads %+v", planned, got)
			}
		})
	}
}

// TestTenantProfile_OtherType_Ignored: a number is for any type that the kernel makes. The other
// values are for their own type only.
func TestTenantProfile_OtherType_Ignored(t *testing.T) {
	static, dynamic := profile{networkID: "cbr0", idGiven: true}, profile{"ens4", multinet.VLAN, 200, "given", true}
	for name, tc := range map[string]struct {
		was, is  string
		p        profile
		profiled bool
		id       string
	}{
		"the same":             {"flannel", "flannel", static, true, "cbr0"},
		"of two plugins":       {"flannel", "bridge", static, false, "mine"},
		"a plugin, then ours":  {"flannel", "", static, false, "mine"},
		"ours, then a plugin":  {"ipvlan", "flannel", dynamic, false, "mine"},
		"of two that are ours": {"ipvlan", "macvlan", dynamic, true, "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &danmv1.TenantNetwork{Spec: danmv1.NetworkSpec{NetworkID: "mine", NetworkType: tc.is}}
			setStatus(&object.Status, 1, decision{profile: &tc.p, networkType: tc.was})
			if row := tenantNetworks.Convert(object); row.Profiled != tc.profiled || row.NetworkID != tc.id {
				t.Errorf("the row is %+v", row)
			}
		})
	}
}

// TestTenantProfile_WrittenIntoSpecEarlier_Kept: that version wrote the profile into the spec.
func TestTenantProfile_WrittenIntoSpecEarlier_Kept(t *testing.T) {
	object := &danmv1.TenantNetwork{
		Spec: danmv1.NetworkSpec{NetworkID: "net", NetworkType: "ipvlan", Options: danmv1.NetworkOptions{HostDevice: "ens4", VLAN: 200}},
	}
	object.UID, object.Namespace, object.Name = "uid-old", "a", "old"
	setStatus(&object.Status, 1, decision{profile: &profile{"ens4", multinet.VLAN, 200, "net", false}})
	object.Status.Profile = nil
	row := tenantNetworks.Convert(object)
	operatortest.New(t, row, devices(), claimed(row, multinet.VLAN, 200, "ens4")).View(func(tx store.ReadTx) {
		d := decide(tx, row, nil, Limits{})
		if want := (profile{"ens4", multinet.VLAN, 200, "net", false}); !d.IsReady() || d.profile == nil || *d.profile != want {
			t.Errorf("%s: %s; profile %+v", d.Reason, d.Message, d.profile)
		}
	})
}

// tenantNetworks is the kind of TenantNetworks of one group.
var tenantNetworks = outside.Networks[1]

func TestNumberClaims_Surplus_ReleasedOnceSpecHasOne(t *testing.T) {
	n := tenants(on("ens4"))
	rows := []any{devices(), n, claimed(n, multinet.VLAN, 500, "ens4"), claimed(n, multinet.VLAN, 501, "ens4")}
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		if d := decide(tx, n, nil, Limits{}); len(d.release) > 0 || d.profile == nil || d.profile.vni != 500 {
			t.Errorf("release %v, profile %v", d.release, d.profile)
		}
		written := *n
		written.VLAN, written.Profiled = 501, true
		if d := decide(tx, &written, nil, Limits{}); len(d.release) != 1 || d.release[0].VNI != 500 || !d.IsReady() {
			t.Errorf("release %v: %s", d.release, d.Message)
		}
	})
}

func TestDeviceChoice_ManyNetworks_SteadyAndSpread(t *testing.T) {
	config := &multinet.TenantConfig{Group: "danm.io", Name: "t", Devices: []multinet.HostDevice{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: pool4}}}
	choose := func(uid string) string {
		n := tenants(func(n *multinet.Network) { n.UID = uid })
		device, r := chooseDevice(n, config, "ns:a")
		if r != nil {
			t.Fatal(r.Message)
		}
		return device.Name
	}
	chosen, before := map[string]int{}, map[string]string{}
	for i := range 300 {
		device := choose(fmt.Sprint(i))
		chosen[device]++
		before[fmt.Sprint(i)] = device
	}
	for uid, device := range before {
		if again := choose(uid); again != device {
			t.Fatalf("network %s is on %s, and then on %s", uid, device, again)
		}
	}
	if len(chosen) != 3 || chosen["a"] < 60 || chosen["b"] < 60 || chosen["c"] < 60 {
		t.Errorf("of 300 networks: %v", chosen)
	}
	config.Devices = slices.Delete(config.Devices, 1, 2)
	for uid, device := range before {
		if device != "b" && choose(uid) != device {
			t.Errorf("network %s is on %s instead of %s, which is still there", uid, choose(uid), device)
		}
	}
}
