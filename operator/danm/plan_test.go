// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/multinet"
)

const pool4 = "nokia.k8s.io/sriov_ens1f0"

// net is a network of a kind with the UID "uid-<kind>-<namespace>-<name>".
func net(kind, namespace, name string, age int, change func(*multinet.Network)) *multinet.Network {
	n := &multinet.Network{
		Meta:      operatortest.Meta(fmt.Sprintf("uid-%s-%s-%s", kind, namespace, name), age),
		Ref:       multinet.Ref{Group: "danm.k8s.io", Kind: kind, Namespace: namespace, Name: name},
		NetworkID: "net", Type: multinet.TypeIPVLAN,
	}
	if change != nil {
		change(n)
	}
	return n
}

// tenants is a TenantNetwork a/net.
func tenants(change func(*multinet.Network)) *multinet.Network {
	return net(multinet.KindTenantNetwork, "a", "net", 0, change)
}

// ranged gives a network an IPv4 range with a pool.
func ranged(n *multinet.Network, cidr, first, last string) *multinet.Network {
	n.V4 = multinet.Range{Prefix: operatortest.Prefixes(cidr)[0]}
	if first != "" {
		ends := operatortest.Addrs(first, last)
		n.V4.Pool = store.AddrRange{First: ends[0], Last: ends[1]}
	}
	return n
}

// devices is the TenantConfig of section 7.4 of the DANM reference.
func devices() *multinet.TenantConfig {
	vnis := func(vniType string, ends ...uint32) (string, []multinet.VNIRange) {
		var all []multinet.VNIRange
		for i := 0; i < len(ends); i += 2 {
			all = append(all, multinet.VNIRange{First: ends[i], Last: ends[i+1]})
		}
		return vniType, all
	}
	device := func(name, vniType string, ends ...uint32) multinet.HostDevice {
		d := multinet.HostDevice{Name: name}
		d.VNIType, d.VNIs = vnis(vniType, ends...)
		return d
	}
	return &multinet.TenantConfig{
		Meta: operatortest.Meta("uid-config", 0), Group: "danm.k8s.io", Name: "tenants",
		Devices: []multinet.HostDevice{
			device("ens4", multinet.VLAN, 200, 200, 500, 510),
			device("ens6", multinet.VXLAN, 1200, 1300),
			device("ens7", ""),
			device(pool4, multinet.VLAN, 1500, 1550),
		},
		NetworkIDs: map[string]string{"flannel": "flannel1234567", "macvlan": "mac"},
	}
}

// claimed is the claim of a number for a network.
func claimed(of *multinet.Network, vniType string, vni uint32, device string) *multinet.HostVNIClaim {
	name := v1alpha1.HostVNIClaimName(vniType, vni, device)
	return &multinet.HostVNIClaim{
		Meta: operatortest.Meta("uid-"+name, 0), Name: name, Type: vniType, VNI: vni, Device: device, Network: of.Ref, NetworkUID: of.UID,
	}
}

// claims are those of numbers on ens4, for another network.
func claims(first, last uint32) []any {
	var all []any
	other := net(multinet.KindTenantNetwork, "b", "other", 0, nil)
	for vni := first; vni <= last; vni++ {
		all = append(all, claimed(other, multinet.VLAN, vni, "ens4"))
	}
	return all
}

func on(device string) func(*multinet.Network) {
	return func(n *multinet.Network) { n.HostDevice = device }
}

// TestTheProfileOfATenantNetwork has the cases of section 7.4, 7.6 and 7.7 of the DANM
// reference by number. Those of bitmaps and conflicts of updates (61 to 64) have no place
// here: a claim is an object.
func TestTheProfileOfATenantNetwork(t *testing.T) {
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
			rows:   []any{&multinet.TenantConfig{Group: "danm.io", Name: "t", Devices: []multinet.HostDevice{{Name: pool4, VNIType: multinet.VXLAN, VNIs: []multinet.VNIRange{{First: 7, Last: 9}}}}}},
			reason: v1alpha1.DeviceNotOfferedReason,
		},
		{
			name: "101: no device is named, and one is offered", net: tenants(nil),
			rows:  []any{&multinet.TenantConfig{Group: "danm.io", Name: "t", Devices: []multinet.HostDevice{{Name: pool4}, {Name: "ens4", VNIType: multinet.VLAN, VNIs: []multinet.VNIRange{{First: 7, Last: 9}}}}}},
			claim: number{multinet.VLAN, 7, "ens4"},
		},
		{name: "a device without numbers", net: tenants(on("ens7")), rows: []any{devices()}, profile: profile{device: "ens7", networkID: "net"}},
		{
			name: "102: the NetworkID of a static type", net: tenants(func(n *multinet.Network) { n.Type, n.NetworkID = "flannel", "hupak" }), rows: []any{devices()},
			profile: profile{networkID: "flannel1234567"},
		},
		{
			name: "102: none is given", net: tenants(func(n *multinet.Network) { n.Type, n.NetworkID = "flannel", "" }), rows: []any{devices()},
			profile: profile{networkID: "flannel1234567"},
		},
		{
			name: "103: the NetworkID of a dynamic type", net: tenants(func(n *multinet.Network) { n.Type, n.NetworkID, n.HostDevice = "macvlan", "", "ens7" }), rows: []any{devices()},
			profile: profile{device: "ens7", networkID: "mac"},
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
			profile: profile{"ens4", multinet.VLAN, 505, "net"},
		},
		{
			name: "a claim without a TenantConfig", net: held, rows: []any{claimed(held, multinet.VLAN, 200, "ens4")},
			profile: profile{"ens4", multinet.VLAN, 200, "net"}, reason: v1alpha1.ReadyReason,
		},
		{
			name: "the TenantConfig gives another NetworkID now", net: held,
			rows:    []any{claimed(held, multinet.VLAN, 200, "ens4"), &multinet.TenantConfig{Group: "danm.io", Name: "t", NetworkIDs: map[string]string{"ipvlan": "other"}}},
			profile: profile{"ens4", multinet.VLAN, 200, "net"}, reason: v1alpha1.ReadyReason,
		},
		{name: "a lost claim is made again as it was", net: held, rows: []any{devices()}, claim: number{multinet.VLAN, 200, "ens4"}},
		{name: "a lost claim that another network has", net: held, rows: append(claims(200, 200), devices()), claim: number{multinet.VLAN, 500, "ens4"}},
		{
			name: "the spec was changed to a number of another network", net: tenants(func(n *multinet.Network) { n.HostDevice, n.VLAN, n.Profiled = "ens4", 500, true }),
			rows:    append(claims(500, 500), devices(), claimed(held, multinet.VLAN, 200, "ens4")),
			profile: profile{"ens4", multinet.VLAN, 200, "net"},
		},
		{
			name: "the spec was changed to another device", net: tenants(func(n *multinet.Network) { n.HostDevice, n.VLAN, n.Profiled = "eth0", 200, true }),
			rows:    []any{devices(), claimed(held, multinet.VLAN, 200, "ens4")},
			profile: profile{"ens4", multinet.VLAN, 200, "net"},
		},
		{
			name: "a device without numbers was changed", net: tenants(func(n *multinet.Network) { n.HostDevice, n.Profiled = "eth0", true }), rows: []any{devices()},
			reason: v1alpha1.DeviceNotOfferedReason,
		},
		{
			name: "the number was removed from the spec", net: tenants(func(n *multinet.Network) { n.HostDevice, n.Profiled = "ens4", true }),
			rows:    []any{devices(), claimed(held, multinet.VLAN, 200, "ens4")},
			profile: profile{"ens4", multinet.VLAN, 200, "net"},
		},
		{
			name: "a static NetworkID was changed", net: tenants(func(n *multinet.Network) { n.Type, n.NetworkID, n.Profiled = "flannel", "evil", true }), rows: []any{devices()},
			reason: v1alpha1.TypeNotServedReason, text: "create the network again",
		},
		{name: "Invalid", net: tenants(func(n *multinet.Network) { n.HostDevice, n.Invalid = "ens4", "cidr" }), rows: []any{devices()}, reason: v1alpha1.InvalidReason, text: "cidr"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, append(tc.rows, tc.net)...).View(func(tx store.ReadTx) {
				d := decide(tx, tc.net, tc.taken)
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
						t.Errorf("profile %+v, want %+v: %s", d.profile, tc.profile, d.message)
					}
				} else if d.profile != nil {
					t.Errorf("profile %+v", d.profile)
				}
				if tc.reason != "" && (d.reason != tc.reason || !strings.Contains(d.message, tc.text)) || len(d.release) > 0 || d.empty {
					t.Errorf("%s: %s; release %v; want %s with %q", d.reason, d.message, d.release, tc.reason, tc.text)
				}
			})
		})
	}
}

func TestAProfileIsWrittenOnce(t *testing.T) {
	n := tenants(func(n *multinet.Network) { n.HostDevice, n.VLAN = "ens4", 200 })
	p := profile{"ens4", multinet.VLAN, 200, "net"}
	if !p.writtenIn(n, &danmv1.NetworkSpec{NetworkType: "ipvlan"}) {
		t.Error("it is not found")
	}
	if p.writtenIn(n, &danmv1.NetworkSpec{}) {
		t.Error("93: the default type is not written")
	}
	for _, other := range []profile{{"ens5", multinet.VLAN, 200, "net"}, {"ens4", multinet.VXLAN, 200, "net"}, {"ens4", multinet.VLAN, 201, "net"}, {"ens4", multinet.VLAN, 200, "n"}, {"ens4", "", 0, "net"}} {
		if other.writtenIn(n, &danmv1.NetworkSpec{NetworkType: "ipvlan"}) {
			t.Errorf("%v is found", other)
		}
	}
}

func TestSurplusClaimsGoOnceTheSpecHasOne(t *testing.T) {
	n := tenants(on("ens4"))
	rows := []any{devices(), n, claimed(n, multinet.VLAN, 500, "ens4"), claimed(n, multinet.VLAN, 501, "ens4")}
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		if d := decide(tx, n, nil); len(d.release) > 0 || d.profile == nil || d.profile.vni != 500 {
			t.Errorf("release %v, profile %v", d.release, d.profile)
		}
		written := *n
		written.VLAN, written.Profiled = 501, true
		if d := decide(tx, &written, nil); len(d.release) != 1 || d.release[0].VNI != 500 || !d.ready {
			t.Errorf("release %v: %s", d.release, d.message)
		}
	})
}

func TestTheChoiceOfADeviceIsSteadyAndSpread(t *testing.T) {
	config := &multinet.TenantConfig{Group: "danm.io", Name: "t", Devices: []multinet.HostDevice{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: pool4}}}
	choose := func(uid string) string {
		n := tenants(func(n *multinet.Network) { n.UID = uid })
		device, r := chooseDevice(n, config)
		if r != nil {
			t.Fatal(r.message)
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

func TestNetworksOfOneNameInBothGroups(t *testing.T) {
	old := net(multinet.KindDanmNet, "a", "net", 0, nil)
	young := net(multinet.KindDanmNet, "a", "net", 5, func(n *multinet.Network) { n.Group, n.UID = "danm.io", "uid-young" })
	other := net(multinet.KindTenantNetwork, "a", "net", 9, func(n *multinet.Network) { n.HostDevice, n.Group = "ens7", "danm.io" })
	operatortest.New(t, old, young, other, devices()).View(func(tx store.ReadTx) {
		if d := decide(tx, old, nil); !d.ready || d.conflict != "" {
			t.Errorf("the older: %s: %s", d.reason, d.message)
		}
		if d := decide(tx, young, nil); d.ready || d.reason != v1alpha1.NameConflictReason || !strings.Contains(d.conflict, "danm.k8s.io") {
			t.Errorf("the younger: %s: %s", d.reason, d.message)
		}
		if d := decide(tx, other, nil); d.conflict != "" {
			t.Errorf("another kind: %s", d.message)
		}
	})
}

func TestAdministratorsStayOffNumbersOfTenants(t *testing.T) {
	admin := func(device string, vlan uint32) *multinet.Network {
		return net(multinet.KindDanmNet, "a", "admin", 0, func(n *multinet.Network) { n.HostDevice, n.VLAN = device, vlan })
	}
	holder := net(multinet.KindTenantNetwork, "b", "n", 0, nil)
	for _, tc := range []struct {
		name   string
		net    *multinet.Network
		rows   []any
		reason string
	}{
		{"in a range", admin("ens4", 505), []any{devices()}, v1alpha1.VNITakenReason},
		{"beside the range", admin("ens4", 300), []any{devices()}, v1alpha1.ReadyReason},
		{"in a range of another device", admin("ens5", 505), []any{devices()}, v1alpha1.ReadyReason},
		{"claimed, of a range that is gone", admin("ens5", 300), []any{claimed(holder, multinet.VLAN, 300, "ens5")}, v1alpha1.VNITakenReason},
		{"without a TenantConfig", admin("ens4", 505), nil, v1alpha1.ReadyReason},
		{"shared by administrators", admin("ens4", 300), []any{devices(), net(multinet.KindClusterNetwork, "", "n", 0, func(n *multinet.Network) { n.HostDevice, n.VLAN = "ens4", 300 })}, v1alpha1.ReadyReason},
		{"85: without a NetworkID", net(multinet.KindDanmNet, "a", "n", 0, func(n *multinet.Network) { n.Type, n.NetworkID = "flannel", "" }), nil, v1alpha1.NetworkIDMissingReason},
		{"86: a NetworkID of 12 bytes with a number", net(multinet.KindDanmNet, "a", "n", 0, func(n *multinet.Network) { n.NetworkID, n.HostDevice, n.VLAN = "abcdeftgasdf", "ens4", 50 }), nil, v1alpha1.InvalidReason},
		{"a static type needs no TenantConfig", net(multinet.KindClusterNetwork, "", "n", 0, func(n *multinet.Network) { n.Type = "bridge" }), nil, v1alpha1.ReadyReason},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, append(tc.rows, tc.net)...).View(func(tx store.ReadTx) {
				if d := decide(tx, tc.net, nil); d.reason != tc.reason || d.ready != (tc.reason == v1alpha1.ReadyReason) || d.profile != nil || d.claim != nil {
					t.Errorf("%s: %s, want %s", d.reason, d.message, tc.reason)
				}
			})
		})
	}
}

func TestOverlapsOfOneSegment(t *testing.T) {
	onVLAN := func(kind, namespace string, age int, cidr, first, last string) *multinet.Network {
		return ranged(net(kind, namespace, "net", age, func(n *multinet.Network) { n.HostDevice, n.VLAN, n.Profiled = "ens4", 300, true }), cidr, first, last)
	}
	untagged := func(kind, namespace string, age int, cidr, first, last string) *multinet.Network {
		n := onVLAN(kind, namespace, age, cidr, first, last)
		n.HostDevice, n.VLAN = "ens7", 0
		return n
	}
	const danmNet, cluster, tenant = multinet.KindDanmNet, multinet.KindClusterNetwork, multinet.KindTenantNetwork
	second := untagged(tenant, "a", 5, "10.0.0.0/24", "10.0.0.10", "10.0.0.20")
	second.Name, second.UID = "second", "uid-second"
	unprofiled := untagged(tenant, "a", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20")
	unprofiled.Profiled = false
	for _, tc := range []struct {
		name         string
		older, young *multinet.Network
		fits         bool
	}{
		{"one range and pool, in two namespaces: DANM's demo", onVLAN(danmNet, "a", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), onVLAN(danmNet, "b", 5, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), true},
		{"one range and pool, of two kinds", onVLAN(cluster, "", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), onVLAN(danmNet, "b", 5, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), true},
		{"one range in two pools", onVLAN(danmNet, "a", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), onVLAN(danmNet, "b", 5, "10.0.0.0/24", "10.0.0.21", "10.0.0.30"), true},
		{"two ranges", onVLAN(danmNet, "a", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), onVLAN(danmNet, "b", 5, "10.0.1.0/24", "10.0.1.10", "10.0.1.20"), true},
		{"one address in both pools", onVLAN(danmNet, "a", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), onVLAN(danmNet, "b", 5, "10.0.0.0/24", "10.0.0.20", "10.0.0.30"), false},
		{"one pool in two ranges", onVLAN(danmNet, "a", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), onVLAN(danmNet, "b", 5, "10.0.0.0/16", "10.0.0.10", "10.0.0.20"), false},
		{"another segment", onVLAN(danmNet, "a", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), untagged(danmNet, "b", 5, "10.0.0.0/24", "10.0.0.20", "10.0.0.30"), true},
		{"an older one without a pool", onVLAN(danmNet, "a", 0, "10.0.0.0/24", "", ""), onVLAN(danmNet, "b", 5, "10.0.0.0/16", "10.0.0.10", "10.0.0.20"), true},
		{"two tenants with one pool", untagged(tenant, "a", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), untagged(tenant, "b", 5, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), false},
		{"one tenant with one pool", untagged(tenant, "a", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), second, true},
		{"a tenant with the pool of an administrator", untagged(danmNet, "a", 0, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), untagged(tenant, "a", 5, "10.0.0.0/24", "10.0.0.10", "10.0.0.20"), false},
		{"an administrator after a tenant that has only written a device", unprofiled, untagged(danmNet, "b", 5, "10.0.0.0/24", "10.0.0.15", "10.0.0.20"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			operatortest.New(t, tc.older, tc.young, devices()).View(func(tx store.ReadTx) {
				if r := overlapsNoOlder(tx, tc.young); (r == nil) != tc.fits || r != nil && r.reason != v1alpha1.OverlapReason {
					t.Errorf("the younger: %+v", r)
				}
				if r := overlapsNoOlder(tx, tc.older); r != nil {
					t.Errorf("the older: %+v", r)
				}
			})
		})
	}
}

// address is an address of a network that a pod holds.
func address(n *multinet.Network, ip, pod string) *store.Address {
	row := operatortest.Address(n.Domain(), "", ip, operatortest.Pod("a", "a", pod, "", ""))
	row.VPC, row.Network = "", n.Reference()
	return row
}

// TestANetworkGoesOnlyWhenNoPodUsesIt has the cases 111 to 118.
func TestANetworkGoesOnlyWhenNoPodUsesIt(t *testing.T) {
	gone := func(n *multinet.Network) { n.Deleting, n.HostDevice, n.VLAN, n.Profiled = true, "ens4", 500, true }
	n := ranged(tenants(gone), "10.0.0.0/24", "10.0.0.10", "10.0.0.20")
	own := claimed(n, multinet.VLAN, 500, "ens4")
	near := ranged(net(multinet.KindTenantNetwork, "a", "net2", 0, nil), "10.0.0.0/24", "10.0.0.10", "10.0.0.20")
	other := claimed(near, multinet.VXLAN, 500, "ens4")
	operatortest.New(t, n, own, other, address(n, "10.0.0.10", "p")).View(func(tx store.ReadTx) {
		d := decide(tx, n, nil)
		if d.empty || len(d.release) > 0 || d.reason != v1alpha1.DeletingReason || !strings.Contains(d.message, "a/p") {
			t.Errorf("118: with a pod: %+v", d)
		}
	})
	operatortest.New(t, n, own, other, address(near, "10.0.0.10", "p")).View(func(tx store.ReadTx) {
		d := decide(tx, n, nil)
		if !d.empty || len(d.release) != 1 || d.release[0] != own {
			t.Errorf("112 to 117: without a pod and a TenantConfig: %+v", d)
		}
	})
}

func TestARangeThatIsInUseStays(t *testing.T) {
	n := ranged(net(multinet.KindDanmNet, "a", "net", 0, on("ens4")), "10.0.0.0/24", "10.0.0.10", "10.0.0.20")
	// An address outside of the pool is inside the network.
	operatortest.New(t, n, address(n, "10.0.0.99", "p")).View(func(tx store.ReadTx) {
		if d := decide(tx, n, nil); !d.ready {
			t.Errorf("%s: %s", d.reason, d.message)
		}
		moved := *n
		ranged(&moved, "10.0.1.0/24", "10.0.1.10", "10.0.1.20")
		if d := decide(tx, &moved, nil); d.reason != v1alpha1.RangeInUseReason || !strings.Contains(d.message, "10.0.0.99") {
			t.Errorf("%s: %s", d.reason, d.message)
		}
	})
}

func TestFiguresOfANetwork(t *testing.T) {
	n := ranged(net(multinet.KindDanmNet, "a", "net", 0, on("ens4")), "10.0.0.0/24", "10.0.0.10", "10.0.0.19")
	n.Routes = []multinet.Route{{Dst: operatortest.Prefixes("10.1.0.0/16")[0], Gateway: operatortest.Addrs("10.0.0.10")[0]}}
	sharing := ranged(net(multinet.KindDanmNet, "b", "net", 5, on("ens4")), "10.0.0.0/24", "10.0.0.10", "10.0.0.19")
	elsewhere := ranged(net(multinet.KindDanmNet, "c", "net", 5, on("ens5")), "10.0.0.0/24", "10.0.0.10", "10.0.0.19")
	rows := []any{
		n, sharing, elsewhere, address(n, "10.0.0.11", "p"), address(n, "10.0.0.99", "p"), address(sharing, "10.0.0.12", "q"), address(elsewhere, "10.0.0.13", "r"),
	}
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		d := decide(tx, n, nil)
		if want := (figures{used: 2, free: 7, total: 9}); d.figures != want || !slices.Equal(d.pods, []string{"a/p"}) {
			t.Errorf("%+v and pods %v, want %+v and a/p", d.figures, d.pods, want)
		}
		both := *n
		both.V6 = multinet.Range{Prefix: operatortest.Prefixes("2a00::/64")[0], EUI64: true}
		if got := count(tx, &both); got.total != 9 {
			t.Errorf("with EUI-64: %+v", got)
		}
		both.V4 = multinet.Range{}
		if got := count(tx, &both); got.total != 1<<53 || got.free != 1<<53 {
			t.Errorf("EUI-64 alone: %+v", got)
		}
		both.V6 = multinet.Range{Prefix: operatortest.Prefixes("2a00::/120")[0]}
		if got := count(tx, &both); got.total != 255 || got.free != 255 {
			t.Errorf("no room for EUI-64: %+v", got)
		}
		both.V6 = multinet.Range{}
		if got := count(tx, &both); got.total != 0 || got.free != 0 {
			t.Errorf("L2: %+v", got)
		}
	})
}

// TestANetworkWaitsForPodsWithoutClaims: the namespace controller deletes the claims of a
// namespace at once, and its pods end later.
func TestANetworkWaitsForPodsWithoutClaims(t *testing.T) {
	n := tenants(func(n *multinet.Network) { n.Deleting, n.HostDevice, n.VLAN, n.Profiled = true, "ens4", 500, true })
	pod := operatortest.Pod("a", "a", "p", "", "")
	text, err := annotations.FormatAttachments([]annotations.Attachment{{Name: "eth0", Kind: "macvlan", Outside: n.Reference().Path(), OutsideUID: n.UID}})
	if err != nil {
		t.Fatal(err)
	}
	pod.Attachments, pod.NetworkReady, pod.Reason, pod.Deleting = text, true, v1alpha1.AttachedReason, true
	ended, stranger, forged := *pod, *pod, *pod
	ended.Terminal, stranger.Namespace, forged.Reason = true, "b", ""
	for name, tc := range map[string]struct {
		pod   *store.Pod
		empty bool
	}{
		"a pod that is being deleted":              {pod, false},
		"a pod that has ended":                     {&ended, true},
		"a pod that can't name the network":        {&stranger, true},
		"a pod to which the operator said nothing": {&forged, true},
	} {
		t.Run(name, func(t *testing.T) {
			operatortest.New(t, n, claimed(n, multinet.VLAN, 500, "ens4"), tc.pod).View(func(tx store.ReadTx) {
				if d := decide(tx, n, nil); d.empty != tc.empty || (len(d.release) > 0) != tc.empty {
					t.Errorf("%+v", d)
				}
			})
		})
	}
	w := watch{kinds.OutsideNetworks[slices.IndexFunc(kinds.OutsideNetworks, func(k kinds.OutsideNetwork) bool { return k.Name == n.Kind && k.Group == n.Group })]}
	operatortest.New(t, n).View(func(tx store.ReadTx) {
		if got := w.ofPod(tx, pod, nil); len(got) != 1 || got[0].Name != n.Name || got[0].After != countsEvery {
			t.Errorf("after the pod: %v", got)
		}
		if got := w.ofPod(tx, pod, pod); len(got) != 0 {
			t.Errorf("while it lives: %v", got)
		}
		claim := &multinet.Claim{Namespace: "a", Name: "c", Network: n.Reference()}
		if got := w.ofAttachment(tx, claim, nil); len(got) != 1 || got[0].Name != n.Name {
			t.Errorf("after a claim: %v", got)
		}
	})
}
