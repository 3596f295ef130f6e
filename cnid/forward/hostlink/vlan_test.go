// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostlink_test

import (
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/ipvlan"
	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// withVLANs returns two nodes on one wire that both have these VLANs, and skips the test on
// a kernel without them. The kernels of test/vm have them.
func withVLANs(t *testing.T, rows ...multinet.HostLink) (a, b *node) {
	t.Helper()
	a, b = pair(t)
	for _, n := range []*node{a, b} {
		n.wants(t, rows...)
		n.pass(t)
		for _, failure := range n.failed() {
			if failure.Reason == v1alpha1.KernelUnsupportedReason {
				t.Skip("skipped: missing feature: ", failure.Message)
			}
			t.Fatal(failure.Message)
		}
	}
	return a, b
}

// TestHostLink_KernelWithoutVLAN_OneFailure is about the kernels that withVLANs skips.
func TestHostLink_KernelWithoutVLAN_OneFailure(t *testing.T) {
	a, _ := pair(t)
	a.wants(t, vlan(100, "red"), vlan(200, "blue"), vxlan(100, "red"))
	a.pass(t)
	failures := a.failed()
	if len(failures) == 0 {
		if diff := cmp.Diff([]string{"blue.200", "red.100", "vx_red"}, a.links(t)); diff != "" {
			t.Errorf("links (-want +got):\n%s", diff)
		}
		return
	}
	want := multinet.LinkID{Type: multinet.VLAN}
	if len(failures) != 1 || failures[0].LinkID != want || failures[0].Reason != v1alpha1.KernelUnsupportedReason ||
		!strings.Contains(failures[0].Message, "kernel module 8021q") {
		t.Errorf("failures are %+v", failures)
	}
	if diff := cmp.Diff([]string{"vx_red"}, a.links(t)); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// TestVLAN_PodsOnOneVLAN_ReachEachOther has both types of interfaces, on the nodes' two ends of a
// trunk.
func TestVLAN_PodsOnOneVLAN_ReachEachOther(t *testing.T) {
	for name, devices := range map[string]ifdriver.Type{"ipvlan": ipvlan.Devices.Type(), "macvlan": macvlan.Devices.Type()} {
		t.Run(name, func(t *testing.T) {
			a, b := withVLANs(t, vlan(100, "red"), vlan(200, "blue"))
			if mtu := a.link(t, "red.100").Attrs().MTU; mtu != 1500 {
				t.Errorf("MTU is %d, want that of the parent", mtu)
			}
			client := attachPod(t, a, devices, "red.100", "10.0.0.1/24")
			childtest.Serve(t, attachPod(t, b, devices, "red.100", "10.0.0.2/24"), "red")
			childtest.Serve(t, attachPod(t, b, devices, "blue.200", "10.0.0.3/24"), "blue")
			if answer, err := childtest.Ask(t, client, "10.0.0.1", "10.0.0.2", long); answer != "red" {
				t.Errorf("the pod of the same network answers %q, %v", answer, err)
			}
			if answer, err := childtest.Ask(t, client, "10.0.0.1", "10.0.0.3", short); err == nil {
				t.Errorf("a pod of another network answers %q", answer)
			}
		})
	}
}

func TestVLAN_ChangedOrUnwanted_RepairedOrRemoved(t *testing.T) {
	a, _ := withVLANs(t, vlan(100, "red"))
	a.Do(t, netnstest.OnLink("red.100", netlink.LinkDel))
	rec := journal.Record{Interface: journal.Interface{Config: netif.Config{Parent: "eth0", VLAN: 100}}}
	if name, err := a.loop.Name(t.Context(), rec); err != nil || name != "red.100" {
		t.Errorf("after a deletion by hand: %q, %v", name, err)
	}
	a.start(t)
	a.wants(t)
	a.pass(t)
	if got := a.links(t); len(got) != 0 {
		t.Errorf("%v are left", got)
	}
}

// TestVLAN_ParentGoesAndReturns_Follows is about a device that is made anew.
func TestVLAN_ParentGoesAndReturns_Follows(t *testing.T) {
	a, b := withVLANs(t, vlan(100, "red"))
	a.Do(t, netnstest.OnLink("eth0", netlink.LinkDel))
	a.pass(t)
	if failures := a.failed(); len(failures) != 1 || failures[0].Reason != v1alpha1.ParentMissingReason {
		t.Errorf("failures are %+v", failures)
	}
	childtest.Wire(t, a.Namespace, "eth0", b.Namespace, "eth0")
	a.pass(t)
	if failures := a.failed(); len(failures) != 0 || len(a.links(t)) != 1 {
		t.Errorf("failures are %+v, links %v", failures, a.links(t))
	}
}

// TestVLAN_Foreign_Kept: the kernel has one of a number on a parent.
func TestVLAN_Foreign_Kept(t *testing.T) {
	withVLANs(t, vlan(1, "x"))
	a, _ := pair(t)
	a.Do(t, netnstest.OnLink("eth0", func(l netlink.Link) error {
		return netlink.LinkAdd(&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "red.100", TxQLen: -1, ParentIndex: l.Attrs().Index}, VlanId: 100})
	}))
	index := a.link(t, "red.100").Attrs().Index
	a.wants(t, vlan(100, "red"))
	a.pass(t)
	if failures := a.failed(); len(failures) != 1 || !strings.Contains(failures[0].Message, "another program has made VLAN 100 on eth0") {
		t.Errorf("failures are %+v", failures)
	}
	if got := a.link(t, "red.100").Attrs().Index; got != index {
		t.Errorf("device %d has become %d", index, got)
	}
}
