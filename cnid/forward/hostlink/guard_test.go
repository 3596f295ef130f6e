// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostlink_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/forward/hostlink"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/internal/testrows"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/test/waits"
)

// onRed is a record of a pod on VXLAN 100.
var onRed = journal.Record{Interface: journal.Interface{Config: netif.Config{Parent: "eth0", VXLAN: 100}}}

// peersOf returns the nodes in a link's default entries: the link sends frames there that
// match no other entry.
func peersOf(t *testing.T, n *node, link string) []string {
	t.Helper()
	var list []netlink.Neigh
	index := n.link(t, link).Attrs().Index
	n.Do(t, func() (err error) {
		list, err = netlink.NeighList(index, unix.AF_BRIDGE)
		return err
	})
	to := []string{}
	for _, row := range list {
		if row.HardwareAddr.String() == "00:00:00:00:00:00" {
			to = append(to, row.IP.String())
		}
	}
	return to
}

// TestHostLink_APINotRead_NothingChanged: it knows no nodes yet, and pods use a link.
func TestHostLink_APINotRead_NothingChanged(t *testing.T) {
	a, _ := pair(t)
	a.wants(t, vxlan(100, "red"))
	a.pass(t)
	var err error
	if a.store, err = store.New(); err != nil {
		t.Fatal(err)
	}
	a.records, a.unread = []journal.Record{onRed}, true
	a.start(t)
	if err := a.loop.Pass(); err == nil {
		t.Error("a pass succeeds")
	}
	if !strings.Contains(tablesOf(t, a), hostlink.TableName) {
		t.Error("the port has no filter")
	}
	if diff := cmp.Diff([]string{"192.0.2.2"}, peersOf(t, a, "vx_red")); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if len(a.failed()) > 0 {
		t.Errorf("failures are %+v", a.failed())
	}
	if name, err := a.loop.Name(t.Context(), onRed); err != nil || name != "vx_red" {
		t.Errorf("an attachment is on %q, %v", name, err)
	}
	other := journal.Record{Interface: journal.Interface{Config: netif.Config{Parent: "eth0", VXLAN: 200}}}
	if name, err := a.loop.Name(t.Context(), other); err == nil || !strings.Contains(err.Error(), "has not read the API") {
		t.Errorf("an attachment on a link that is missing is on %q, %v", name, err)
	}
}

// TestHostLinkFilter_LinkPresent_Kept: the Node object has lost its address.
func TestHostLinkFilter_LinkPresent_Kept(t *testing.T) {
	a, _ := pair(t)
	a.wants(t, vxlan(100, "red"))
	a.pass(t)
	a.knows(t, testrows.Node("a"))
	a.records = []journal.Record{onRed}
	for _, step := range []func(){func() {}, func() { a.wants(t) }} {
		step()
		a.pass(t)
		if diff := cmp.Diff([]string{"vx_red"}, a.links(t)); diff != "" {
			t.Errorf("links (-want +got):\n%s", diff)
		}
		if !strings.Contains(tablesOf(t, a), hostlink.TableName) {
			t.Error("the port has no filter")
		}
	}
}

// TestHostLink_NodeWithoutLink_PortUnreachable: node b forwards what a pod of it sends to
// the port of node a, and the packets arrive with the address of a node that a knows, as
// masqueraded ones do. Node b has no parent for the link.
func TestHostLink_NodeWithoutLink_PortUnreachable(t *testing.T) {
	a, b := pair(t)
	a.knows(t, testrows.Node("a", "192.0.2.1"), testrows.Node("b", "192.0.2.2"), testrows.Node("c", "198.51.100.9"))
	a.wants(t, vxlan(100, "red"))
	a.pass(t)
	pod := netnstest.New(t)
	childtest.Wire(t, b.Namespace, "pod", pod, "eth0")
	b.Do(t, func() error {
		return errors.Join(childtest.AddAddrs("pod", "198.51.100.1/24"), os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
	})
	pod.Do(t, func() error {
		return errors.Join(childtest.AddAddrs("eth0", "198.51.100.9/24"), netlink.RouteAdd(&netlink.Route{Gw: netip.MustParseAddr("198.51.100.1").AsSlice()}))
	})
	a.Do(t, func() error {
		_, pods, err := net.ParseCIDR("198.51.100.0/24")
		return errors.Join(err, netlink.RouteAdd(&netlink.Route{Dst: pods, Gw: netip.MustParseAddr("192.0.2.2").AsSlice()}))
	})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	received := func() uint64 { return a.link(t, "vx_red").Attrs().Statistics.RxPackets }
	sends := func(want uint64) {
		t.Helper()
		pod.Do(t, func() error { return sendVXLAN("198.51.100.9", 100) })
		for end := time.Now().Add(waits.Limit(long)); received() < want && time.Now().Before(end); <-tick.C {
		}
		if got := received(); got != want {
			t.Errorf("%d packets arrived, want %d", got, want)
		}
	}
	sends(1) // without the filter on b
	b.wants(t, hostLink(multinet.LinkID{Device: "eth9", Type: multinet.VXLAN, VNI: 100}, "red"))
	b.pass(t)
	sends(1)
	b.wants(t)
	b.pass(t)
	sends(2) // and not a late third one
}

// TestHostLink_HostBehindOtherDevice_NotNode: it has the address of a node, and the node takes packets
// for its own address at each device.
func TestHostLink_HostBehindOtherDevice_NotNode(t *testing.T) {
	a, b := pair(t)
	a.wants(t, vxlan(100, "red"))
	a.pass(t)
	thief := netnstest.New(t)
	childtest.Wire(t, a.Namespace, "other0", thief, "eth0")
	at := a.link(t, "other0").Attrs().HardwareAddr
	a.Do(t, func() error {
		var failed []error
		for _, device := range []string{"all", "other0"} {
			failed = append(failed, os.WriteFile("/proc/sys/net/ipv4/conf/"+device+"/rp_filter", []byte("0"), 0o644))
		}
		return errors.Join(failed...)
	})
	thief.Do(t, func() error {
		return errors.Join(childtest.AddAddrs("eth0", "192.0.2.2/24"), netnstest.OnLink("eth0", func(l netlink.Link) error {
			return netlink.NeighSet(
				&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: netip.MustParseAddr("192.0.2.1").AsSlice(), HardwareAddr: at, State: netlink.NUD_PERMANENT},
			)
		})())
	})
	thief.Do(t, func() error { return sendVXLAN("192.0.2.2", 100) })
	b.Do(t, func() error { return sendVXLAN("192.0.2.2", 100) }) // a node, whose own filter is missing
	received := func() uint64 { return a.link(t, "vx_red").Attrs().Statistics.RxPackets }
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(waits.Limit(long)); received() == 0 && time.Now().Before(end); <-tick.C {
	}
	if got := received(); got != 1 {
		t.Errorf("%d packets arrived, want that of the node", got)
	}
}
