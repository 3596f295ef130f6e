// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/drivers/devicemove"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/vm/hardware"
)

// node is the machine with a real adapter, on which the driver of a daemon works.
type node struct {
	*Driver
	// t is the test that the node is for, subtests may restart its daemon.
	t       testing.TB
	adapter hardware.Adapter
	vfs     []hardware.Function
	dir     string
}

// newNode returns a node with so many virtual functions.
func newNode(t *testing.T, functions int) *node {
	t.Helper()
	n := &node{t: t, adapter: hardware.Find(t), dir: t.TempDir()}
	n.adapter.SetUp(t)
	n.vfs = n.adapter.MakeFunctions(t, functions) // which resets the adapter
	n.adapter.AwaitCarrier(t)                     // rates are compared to its speed
	n.start(Config{})
	return n
}

// start starts a daemon, in the place of one that has ended without a word.
func (n *node) start(cfg Config) {
	n.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	driver, err := New(cfg, n.dir)
	if err != nil {
		n.t.Fatal(err)
	}
	n.Driver = driver
	n.t.Cleanup(driver.Close)
}

// state is all of a virtual function that has to be as before in the end.
type state struct {
	Settings settings
	Device   *devicemove.Device
}

// stateOf returns the state of a virtual function on the node.
func (n *node) stateOf(t testing.TB, vf hardware.Function) state {
	t.Helper()
	s, ok := settingsOf(n.adapter.Link(t), vf.Index)
	if !ok {
		t.Fatalf("the adapter has no function %d", vf.Index)
	}
	f, err := n.sys.function(vf.Address)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name == "" {
		return state{Settings: s}
	}
	link, err := netlink.LinkByName(f.Name)
	if err != nil {
		t.Fatal(err)
	}
	return state{s, devicemove.Of(link)}
}

// asBefore fails the test if a virtual function differs, or something is left.
func (n *node) asBefore(t testing.TB, vf hardware.Function, before state) {
	t.Helper()
	if diff := cmp.Diff(before, n.stateOf(t, vf)); diff != "" {
		t.Errorf("%s (-before +after):\n%s", vf.Address, diff)
	}
	files, err := os.ReadDir(n.dir + "/sriov")
	if err != nil || len(files) != 0 {
		t.Errorf("notes %v are left, %v", files, err)
	}
}

// spec returns an interface on a virtual function in a pod.
func spec(pod *netnstest.Namespace, vf hardware.Function, change ...func(*ifdriver.Spec)) ifdriver.Spec {
	s := ifdriver.Spec{
		ContainerID: "0123456789abcdef", IfName: "net1", Request: "eth0", PodUID: "uid", Network: "alioth", Description: "customer-a/web-1",
		NetnsPath: pod.Path, MAC: net.HardwareAddr{2, 0, 192, 0, 2, 7}, AltName: "fast",
		Config: netif.Config{
			IPv6: netif.IPv6On, VLAN: 7, VF: &netif.VF{QoS: new(3)},
			Routes: []netif.Route{{
				Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.1"), Table: 300,
			}},
			Rules: []netif.Rule{{From: netip.MustParsePrefix("192.0.2.7/32"), Table: 300}},
		},
		Addrs: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24"), netip.MustParsePrefix("2001:db8::7/64")},
		PCI:   vf.Address,
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

func (n *node) mustAttach(t testing.TB, s ifdriver.Spec) {
	t.Helper()
	if _, err := n.Attach(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func (n *node) mustDetach(t testing.TB, s ifdriver.Spec) {
	t.Helper()
	if err := n.Detach(t.Context(), s.ContainerID, s.IfName); err != nil {
		t.Fatal(err)
	}
}

func hasMAC(link netlink.Link, mac net.HardwareAddr) bool {
	return bytes.Equal(link.Attrs().HardwareAddr, mac)
}

var _ ifdriver.Driver = (*Driver)(nil)
