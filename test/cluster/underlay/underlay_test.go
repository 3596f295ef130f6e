// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package underlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

func TestTopology_NamesAndAddresses_Derived(t *testing.T) {
	topology := Topology{Lab: "alioth", Nodes: 12, Octet: 77}
	if err := topology.Validate(); err != nil {
		t.Fatal(err)
	}
	v4, v6 := topology.NodeIPs(12)
	host4, host6 := topology.HostIPs()
	net4, net6 := topology.Networks()
	got := []string{
		topology.Node(12), v4.String(), v6.String(), topology.HostLink(), host4.String(), host6.String(),
		net4.String(), net6.String(), topology.Switch(), NetNSPath(topology.Node(1)),
	}
	want := []string{
		"alioth-node12", "192.168.77.12", "fd77::12", "alioth-lab0", "192.168.77.254", "fd77::fe",
		"192.168.77.0/24", "fd77::/64", "alioth-switch", "/run/netns/alioth-node1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if i := topology.NodeIndex("alioth-node12"); i != 12 {
		t.Errorf("index %d, want 12", i)
	}
	if i := topology.NodeIndex("alioth-node13"); i != 0 {
		t.Errorf("index of an unknown node %d, want 0", i)
	}
}

func TestTopology_Impossible_Refused(t *testing.T) {
	for name, topology := range map[string]Topology{
		"no name":             {Nodes: 1, Octet: 1},
		"link name too long":  {Lab: "abcdefghij", Nodes: 1, Octet: 1},
		"no nodes":            {Lab: "a", Octet: 1},
		"more nodes than fit": {Lab: "a", Nodes: 101, Octet: 1},
		"no network":          {Lab: "a", Nodes: 1},
		"no usual node":       {Lab: "a", Nodes: 1, Guests: 1, Octet: 1},
	} {
		if topology.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// newLab makes a small underlay that goes with the test.
func newLab(t *testing.T) Topology {
	t.Helper()
	needs.Root(t, "to make network namespaces")
	topology := Topology{Lab: "alutest", Nodes: 2, Octet: 79}
	t.Cleanup(func() {
		if err := topology.Down(); err != nil {
			t.Error(err)
		}
	})
	if err := topology.Up(false); err != nil {
		t.Fatal(err)
	}
	return topology
}

// reach opens a TCP connection between two namespaces; "" is the host's.
func reach(from, to string, addr netip.Addr) error {
	var listener net.Listener
	err := inNS(to, func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer listener.Close()
	return inNS(from, func() error {
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), 2*time.Second)
		if err != nil {
			return fmt.Errorf("dial: %w", err)
		}
		return conn.Close()
	})
}

func TestUnderlay_BothFamilies_NodesAndHostReach(t *testing.T) {
	topology := newLab(t)
	if err := topology.Up(false); err != nil {
		t.Fatalf("making it again: %v", err)
	}
	node4, node6 := topology.NodeIPs(2)
	host4, host6 := topology.HostIPs()
	for _, tt := range []struct {
		name, from, to string
		addr           netip.Addr
	}{
		{"node to node, IPv4", topology.Node(1), topology.Node(2), node4},
		{"node to node, IPv6", topology.Node(1), topology.Node(2), node6},
		{"host to node, IPv4", "", topology.Node(2), node4},
		{"host to node, IPv6", "", topology.Node(2), node6},
		{"node to host, IPv4", topology.Node(1), "", host4},
		{"node to host, IPv6", topology.Node(1), "", host6},
	} {
		if err := reach(tt.from, tt.to, tt.addr); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestCable_Cut_CarrierLostUntilRestored(t *testing.T) {
	topology := newLab(t)
	carrier := func() (up bool) {
		err := inNS(topology.Node(1), func() error {
			link, err := netlink.LinkByName(nodeLink)
			if err == nil {
				up = link.Attrs().OperState == netlink.OperUp
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return up
	}
	// The kernel reports a changed carrier from a work queue.
	wait := func(want bool) {
		t.Helper()
		if !within(10*time.Second, func() bool { return carrier() == want }) {
			t.Fatalf("carrier is not %v", want)
		}
	}
	wait(true)
	if err := topology.SetLink(1, false); err != nil {
		t.Fatal(err)
	}
	wait(false)
	node4, _ := topology.NodeIPs(1)
	if err := reach(topology.Node(2), topology.Node(1), node4); err == nil {
		t.Error("the node is reached without its cable")
	}
	if err := topology.SetLink(1, true); err != nil {
		t.Fatal(err)
	}
	wait(true)
	// The kernel may still be waiting for answers to its requests for the neighbor while the cable
	// was cut. It then refuses every packet that waits with them.
	var err error
	if !within(10*time.Second, func() bool {
		err = reach(topology.Node(2), topology.Node(1), node4)
		return err == nil
	}) {
		t.Error(err)
	}
}

// within reports whether a condition holds before so much time is over.
func within(limit time.Duration, holds func() bool) bool {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(waits.Limit(limit))
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			return false
		}
	}
	return true
}

func TestAddHost_UntilRemoved_Reached(t *testing.T) {
	topology := newLab(t)
	ip := netip.MustParseAddr("192.168.79.200")
	ns, err := topology.AddHost("stranger", ip)
	if err != nil {
		t.Fatal(err)
	}
	node4, _ := topology.NodeIPs(1)
	if err := reach(ns, topology.Node(1), node4); err != nil {
		t.Errorf("from the host: %v", err)
	}
	if err := reach(topology.Node(1), ns, ip); err != nil {
		t.Errorf("to the host: %v", err)
	}
	if err := topology.RemoveHost("stranger"); err != nil {
		t.Fatal(err)
	}
	if err := topology.RemoveHost("stranger"); err != nil {
		t.Errorf("removing it again: %v", err)
	}
	names, err := topology.Namespaces()
	if err != nil || slices.Contains(names, ns) {
		t.Errorf("namespaces %v, %v: want %s gone", names, err, ns)
	}
}

func TestDown_Twice_EverythingRemoved(t *testing.T) {
	topology := newLab(t)
	if _, err := topology.AddHost("stranger", netip.MustParseAddr("192.168.79.200")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := topology.Down(); err != nil {
			t.Fatal(err)
		}
		names, err := topology.Namespaces()
		if err != nil || len(names) != 0 {
			t.Errorf("namespaces left: %v, %v", names, err)
		}
		if _, err := netlink.LinkByName(topology.HostLink()); !errors.As(err, &netlink.LinkNotFoundError{}) {
			t.Errorf("the host's link: %v; want not found", err)
		}
	}
}

func TestTopology_Guests_LastNodesWithOwnMACs(t *testing.T) {
	topology := Topology{Lab: "a", Nodes: 3, Guests: 1, Octet: 76}
	for i, want := range map[int]bool{0: false, 1: false, 2: false, 3: true, 4: false} {
		if got := topology.IsGuest(i); got != want {
			t.Errorf("node %d is a virtual machine: %t", i, got)
		}
	}
	first, second := topology.MACs(3)
	others, _ := topology.MACs(2)
	links := []Link{{nodeLink, first}, {SecondLink, second}, {"another machine's", others}}
	for _, cable := range topology.Cables(3) {
		links = append(links, cable.Near, cable.Far)
	}
	names, addresses := map[string]bool{}, map[string]bool{}
	for _, link := range links {
		names[link.Name], addresses[link.MAC.String()] = true, true
	}
	if len(names) != len(links) || len(addresses) != len(links) {
		t.Errorf("two of the interfaces %v have one name or MAC address", links)
	}
}

func TestUp_VirtualMachine_PortsOnBothSegments(t *testing.T) {
	needs.Root(t, "to make network namespaces")
	topology := Topology{Lab: "alutest", Nodes: 2, Guests: 1, Octet: 79}
	t.Cleanup(func() {
		if err := topology.Down(); err != nil {
			t.Error(err)
		}
	})
	for range 2 { // the second time finds everything there
		if err := topology.Up(false); err != nil {
			t.Fatal(err)
		}
	}
	first, second := topology.Taps(2)
	for port, segment := range map[string]string{first: bridgeName, second: secondBridge} {
		if master := masterOf(t, topology, port); master != segment {
			t.Errorf("the port %s is on %q, want %s", port, master, segment)
		}
	}
	if master := masterOf(t, topology, topology.secondPort(1)); master != secondBridge {
		t.Errorf("the other node's port is on %q", master)
	}
	err := inNS(topology.Node(1), func() error {
		link, err := netlink.LinkByName(SecondLink)
		if err == nil && link.Attrs().Flags&net.FlagUp == 0 {
			err = errors.New("it is down")
		}
		return err
	})
	if err != nil {
		t.Errorf("the other node's interface: %v", err)
	}
	if _, err := os.Stat(NetNSPath(topology.Node(2))); err == nil {
		t.Error("the virtual machine has a network namespace on the host")
	}
}

// masterOf returns the bridge of a switch's port.
func masterOf(t *testing.T, topology Topology, port string) (name string) {
	t.Helper()
	err := inNS(topology.Switch(), func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		bridge, err := netlink.LinkByIndex(link.Attrs().MasterIndex)
		if err == nil {
			name = bridge.Attrs().Name
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTopology_NumberedLabs_NothingShared(t *testing.T) {
	seen := map[string]string{}
	for _, number := range []string{"", "1", "2", "9"} {
		topology := numberedTopology(number, 2)
		if err := topology.Validate(); err != nil {
			t.Fatalf("lab %q: %v", number, err)
		}
		net4, net6 := topology.Networks()
		for _, text := range []string{topology.Lab, topology.Node(1), net4.String(), net6.String()} {
			if other, ok := seen[text]; ok {
				t.Errorf("labs %q and %q share %s", other, number, text)
			}
			seen[text] = number
		}
	}
	for _, number := range []string{"0", "10", "x", "-1", " 1"} {
		if err := numberedTopology(number, 2).Validate(); err == nil {
			t.Errorf("the lab number %q is accepted", number)
		}
	}
}

// TestAddHost_MadeAgain_ReachedAtOnce: the nodes still send to the MAC address of the first one, as
// long as their neighbor tables have it.
func TestAddHost_MadeAgain_ReachedAtOnce(t *testing.T) {
	topology := newLab(t)
	ip := netip.MustParseAddr("fd79::cb")
	for _, which := range []string{"first", "second"} {
		ns, err := topology.AddHost("stranger", ip)
		if err != nil {
			t.Fatal(err)
		}
		if err := reach(topology.Node(1), ns, ip); err != nil {
			t.Errorf("the %s host: %v", which, err)
		}
		if err := topology.RemoveHost("stranger"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHostMAC_OtherHost_Differs(t *testing.T) {
	topology, ip := Topology{Octet: 79}, netip.MustParseAddr("192.0.2.1")
	one := topology.hostMAC("one", []netip.Addr{ip}).String()
	for name, other := range map[string]string{
		"name":    topology.hostMAC("other", []netip.Addr{ip}).String(),
		"address": topology.hostMAC("one", []netip.Addr{ip.Next()}).String(),
		"lab":     Topology{Octet: 80}.hostMAC("one", []netip.Addr{ip}).String(),
	} {
		if one == other {
			t.Errorf("a host of another %s has the same MAC address %s", name, one)
		}
	}
}
