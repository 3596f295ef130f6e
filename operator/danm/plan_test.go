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
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/operatortest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kinds/outside"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

const pool4 = "nokia.k8s.io/sriov_ens1f0"

// net returns a network of a kind with the UID "uid-<kind>-<namespace>-<name>".
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

// tenants returns a TenantNetwork a/net.
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

// devices returns the TenantConfig of section 7.4 of the DANM reference.
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

// claimed returns the claim of a number for a network.
func claimed(of *multinet.Network, vniType string, vni uint32, device string) *multinet.HostVNIClaim {
	name := v1alpha1.HostVNIClaimName(vniType, vni, device)
	return &multinet.HostVNIClaim{
		Meta: operatortest.Meta("uid-"+name, 0), Name: name, Type: vniType, VNI: vni, Device: device, Network: of.Ref, NetworkUID: of.UID,
	}
}

// claims returns claims of numbers on ens4 for another network.
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

func TestNetworks_SameNameInBothGroups_OneServes(t *testing.T) {
	old := net(multinet.KindDanmNet, "a", "net", 0, nil)
	young := net(multinet.KindDanmNet, "a", "net", 5, func(n *multinet.Network) { n.Group, n.UID = "danm.io", "uid-young" })
	other := net(multinet.KindTenantNetwork, "a", "net", 9, func(n *multinet.Network) { n.HostDevice, n.Group = "ens7", "danm.io" })
	operatortest.New(t, old, young, other, devices()).View(func(tx store.ReadTx) {
		if d := decide(tx, old, nil, Limits{}); !d.IsReady() || d.conflict != "" {
			t.Errorf("the older: %s: %s", d.Reason, d.Message)
		}
		if d := decide(tx, young, nil, Limits{}); d.IsReady() || d.Reason != v1alpha1.NameConflictReason || !strings.Contains(d.conflict, "danm.k8s.io") {
			t.Errorf("the younger: %s: %s", d.Reason, d.Message)
		}
		if d := decide(tx, other, nil, Limits{}); d.conflict != "" {
			t.Errorf("another kind: %s", d.Message)
		}
	})
}

func TestNumber_AdministratorInTenantRange_Refused(t *testing.T) {
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
				if d := decide(tx, tc.net, nil, Limits{}); d.Reason != tc.reason || d.IsReady() != (tc.reason == v1alpha1.ReadyReason) || d.profile != nil ||
					d.claim != nil {
					t.Errorf("%s: %s, want %s", d.Reason, d.Message, tc.reason)
				}
			})
		})
	}
}

func TestOverlap_SameSegment_FitsOrRefused(t *testing.T) {
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
				if r := overlapsNone(tx, tc.young); (r == nil) != tc.fits || r != nil && r.Reason != v1alpha1.OverlapReason {
					t.Errorf("the younger: %+v", r)
				}
				if r := overlapsNone(tx, tc.older); r != nil {
					t.Errorf("the older: %+v", r)
				}
			})
		})
	}
}

// address returns an address of a network that a pod holds.
func address(n *multinet.Network, ip, pod string) *store.Address {
	row := operatortest.Address(n.Domain(), "", ip, operatortest.Pod("a", "a", pod, "", ""))
	row.VPC, row.Network = "", n.Reference()
	return row
}

// TestNetwork_PodsUseIt_NotDeleted has the cases 111 to 118.
func TestNetwork_PodsUseIt_NotDeleted(t *testing.T) {
	gone := func(n *multinet.Network) { n.Deleting, n.HostDevice, n.VLAN, n.Profiled = true, "ens4", 500, true }
	n := ranged(tenants(gone), "10.0.0.0/24", "10.0.0.10", "10.0.0.20")
	own := claimed(n, multinet.VLAN, 500, "ens4")
	near := ranged(net(multinet.KindTenantNetwork, "a", "net2", 0, nil), "10.0.0.0/24", "10.0.0.10", "10.0.0.20")
	other := claimed(near, multinet.VXLAN, 500, "ens4")
	operatortest.New(t, n, own, other, address(n, "10.0.0.10", "p")).View(func(tx store.ReadTx) {
		d := decide(tx, n, nil, Limits{})
		if d.empty || len(d.release) > 0 || d.Reason != v1alpha1.DeletingReason || !strings.Contains(d.Message, "a/p") {
			t.Errorf("118: with a pod: %+v", d)
		}
	})
	operatortest.New(t, n, own, other, address(near, "10.0.0.10", "p")).View(func(tx store.ReadTx) {
		d := decide(tx, n, nil, Limits{})
		if !d.empty || len(d.release) != 1 || d.release[0] != own {
			t.Errorf("112 to 117: without a pod and a TenantConfig: %+v", d)
		}
	})
}

func TestRange_AddressesHeld_ChangeRefused(t *testing.T) {
	n := ranged(net(multinet.KindDanmNet, "a", "net", 0, on("ens4")), "10.0.0.0/24", "10.0.0.10", "10.0.0.20")
	// An address outside of the pool is inside the network.
	operatortest.New(t, n, address(n, "10.0.0.99", "p")).View(func(tx store.ReadTx) {
		if d := decide(tx, n, nil, Limits{}); !d.IsReady() {
			t.Errorf("%s: %s", d.Reason, d.Message)
		}
		moved := *n
		ranged(&moved, "10.0.1.0/24", "10.0.1.10", "10.0.1.20")
		if d := decide(tx, &moved, nil, Limits{}); d.Reason != v1alpha1.RangeInUseReason || !strings.Contains(d.Message, "10.0.0.99") {
			t.Errorf("%s: %s", d.Reason, d.Message)
		}
	})
}

// TestNetworkStatus_PodsGone_CountedNotNamed: the status names the pods that a user can
// delete, and counts the others until their nodes have released them.
func TestNetworkStatus_PodsGone_CountedNotNamed(t *testing.T) {
	n := ranged(net(multinet.KindDanmNet, "a", "net", 0, on("ens4")), "10.0.0.0/24", "10.0.0.10", "10.0.0.19")
	gone := &multinet.Claim{Namespace: "a", Name: "c", Network: n.Reference(), PodName: "gone", PodUID: "gone", Node: "node1"}
	rows := []any{n, gone, address(n, "10.0.0.11", "web"), operatortest.Pod("a", "a", "web", "", "")}
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		var status danmv1.NetworkStatus
		setStatus(&status, 1, decide(tx, n, nil, Limits{}))
		if status.Pods != 2 || !slices.Equal(status.PodNames, []string{"a/web"}) {
			t.Errorf("%d pods, of which %v are there", status.Pods, status.PodNames)
		}
	})
}

func TestNetworkFigures_Addresses_UsedFreeAndTotal(t *testing.T) {
	n := ranged(net(multinet.KindDanmNet, "a", "net", 0, on("ens4")), "10.0.0.0/24", "10.0.0.10", "10.0.0.19")
	n.Routes = []multinet.Route{{Dst: operatortest.Prefixes("10.1.0.0/16")[0], Gateway: operatortest.Addrs("10.0.0.10")[0]}}
	sharing := ranged(net(multinet.KindDanmNet, "b", "net", 5, on("ens4")), "10.0.0.0/24", "10.0.0.10", "10.0.0.19")
	elsewhere := ranged(net(multinet.KindDanmNet, "c", "net", 5, on("ens5")), "10.0.0.0/24", "10.0.0.10", "10.0.0.19")
	rows := []any{
		n, sharing, elsewhere, address(n, "10.0.0.11", "p"), address(n, "10.0.0.99", "p"), address(sharing, "10.0.0.12", "q"), address(elsewhere, "10.0.0.13", "r"),
	}
	operatortest.New(t, rows...).View(func(tx store.ReadTx) {
		d := decide(tx, n, nil, Limits{})
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

// TestNetwork_ClaimsGoneBeforePods_WaitsForPods: the namespace controller deletes the claims of a
// namespace at once, and its pods end later.
func TestNetwork_ClaimsGoneBeforePods_WaitsForPods(t *testing.T) {
	n := tenants(func(n *multinet.Network) { n.Deleting, n.HostDevice, n.VLAN, n.Profiled = true, "ens4", 500, true })
	pod := operatortest.Pod("a", "a", "p", "", "")
	text, err := annotations.FormatAttachments([]netif.Interface{{Name: "eth0", Kind: "macvlan", Outside: n.Reference().Path(), OutsideUID: n.UID}})
	if err != nil {
		t.Fatal(err)
	}
	pod.Attachments, pod.NetworkReady, pod.Reason, pod.Deleting = text, true, v1alpha1.AttachedReason, true
	ended, stranger, forged, gated := *pod, *pod, *pod, *pod
	ended.Terminal, stranger.Namespace, forged.Reason, gated.Node = true, "b", "", ""
	for name, tc := range map[string]struct {
		pod   *store.Pod
		empty bool
	}{
		"a pod that is being deleted":              {pod, false},
		"a pod that has ended":                     {&ended, true},
		"a pod that can't name the network":        {&stranger, true},
		"a pod to which the operator said nothing": {&forged, true},
		"a pod that is on no node":                 {&gated, true},
	} {
		t.Run(name, func(t *testing.T) {
			operatortest.New(t, n, claimed(n, multinet.VLAN, 500, "ens4"), tc.pod).View(func(tx store.ReadTx) {
				if d := decide(tx, n, nil, Limits{}); d.empty != tc.empty || (len(d.release) > 0) != tc.empty {
					t.Errorf("%+v", d)
				}
			})
		})
	}
	w := watch{outside.Networks[slices.IndexFunc(outside.Networks, func(k outside.Network) bool { return k.Name == n.Kind && k.Group == n.Group })]}
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

// TestNetwork_ClaimNamesOtherNetwork_Deletable: others can read the UID of an object,
// so the UID proves nothing.
func TestNetwork_ClaimNamesOtherNetwork_Deletable(t *testing.T) {
	n := tenants(func(n *multinet.Network) { n.Deleting, n.HostDevice, n.VLAN, n.Profiled = true, "ens4", 500, true })
	n.Kind, n.Namespace = multinet.KindClusterNetwork, ""
	pod := operatortest.Pod("b", "b", "p", "", "")
	for name, c := range map[string]struct {
		kind, namespace string
		empty           bool
	}{
		"the network": {multinet.KindClusterNetwork, "", false}, "a network of the claim's namespace": {multinet.KindDanmNet, "b", true},
	} {
		claim := &multinet.Claim{
			Meta: operatortest.Meta("uid-claim", 0), Namespace: "b", Name: "c", PodName: pod.Name, PodUID: pod.UID, Node: pod.Node, Interface: "eth0",
			Network: store.NetworkRef{Kind: c.kind, Namespace: c.namespace, Name: n.Name, UID: n.UID},
		}
		operatortest.New(t, n, claim, pod).View(func(tx store.ReadTx) {
			d := decide(tx, n, nil, Limits{})
			if d.empty != c.empty || !c.empty && !strings.Contains(d.Message, "b/p") {
				t.Errorf("a claim for %s: %+v", name, d)
			}
		})
	}
}
