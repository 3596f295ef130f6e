// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenic

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/cni/drivers/devicemove"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// mtu is an MTU that the kernel does not choose.
const mtu = 1400

// node is a network namespace that stands for a node, with devices to delegate. The far end
// of each device is in a namespace that stands for its network.
type node struct {
	*netnstest.Namespace
	Devices
}

func newNode(t *testing.T) *node {
	t.Helper()
	return &node{netnstest.New(t), notesOf(t)}
}

// notesOf returns the devices of a node without notes.
func notesOf(t *testing.T) Devices {
	t.Helper()
	return Devices{Dir: filepath.Join(t.TempDir(), "notes")}
}

// newNodeWithTwo returns a node with the devices nic0 and nic1, and their addresses.
func newNodeWithTwo(t *testing.T) (n *node, one, two net.HardwareAddr) {
	t.Helper()
	n, one, two = newNode(t), macOf(1), macOf(2)
	n.plug(t, "nic0", one)
	n.plug(t, "nic1", two)
	return n, one, two
}

func macOf(last byte) net.HardwareAddr { return net.HardwareAddr{0, 0x0d, 0x3a, 0, 0, last} }

// plug gives the node a device. Its far end is up, in another namespace.
func (n *node) plug(t *testing.T, name string, mac net.HardwareAddr) *netnstest.Namespace {
	t.Helper()
	network := netnstest.New(t)
	far, err := ns.GetNS(network.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	n.Do(t, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr, attrs.MTU = name, mac, mtu
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far", PeerNamespace: netlink.NsFd(far.Fd())})
	})
	network.Do(t, netnstest.OnLink("far", netlink.LinkSetUp))
	return network
}

// run calls f as a process on the node does, and returns its error.
func (n *node) run(t *testing.T, f func() error) (err error) {
	t.Helper()
	n.Do(t, func() error { err = f(); return nil })
	return err
}

func of(pod *netnstest.Namespace, container string) Attachment {
	return Attachment{ContainerID: container, IfName: "eth0", Network: "infra", NetnsPath: pod.Path}
}

func (n *node) attach(t *testing.T, a Attachment, wanted ...Interface) error {
	t.Helper()
	return n.run(t, func() error { return n.Attach(t.Context(), a, wanted) })
}

func (n *node) mustAttach(t *testing.T, a Attachment, wanted ...Interface) {
	t.Helper()
	if err := n.attach(t, a, wanted...); err != nil {
		t.Fatalf("attach: %v", err)
	}
}

func (n *node) mustDetach(t *testing.T, a Attachment) {
	t.Helper()
	if err := n.run(t, func() error { return n.Detach(t.Context(), a.ContainerID, a.IfName) }); err != nil {
		t.Fatalf("detach: %v", err)
	}
}

// collect calls a GC that finds all attachments of a network gone.
func (n *node) collect(t *testing.T) {
	t.Helper()
	all := func(string, string) (bool, error) { return true, nil }
	if err := n.run(t, func() error { return n.Collect(t.Context(), "infra", all) }); err != nil {
		t.Errorf("GC: %v", err)
	}
}

func (n *node) check(t *testing.T, a Attachment, names ...string) error {
	t.Helper()
	return n.run(t, func() error { return n.Check(t.Context(), a, names) })
}

// state is all of a device that has to be as before in the end.
type state struct {
	devicemove.Device
	Addrs []string
}

// states returns the states of the node's devices, by name.
func (n *node) states(t *testing.T) map[string]state {
	t.Helper()
	all := map[string]state{}
	for _, name := range n.Links(t) {
		link := n.Link(t, name)
		one := state{Device: *devicemove.Of(link)}
		n.Do(t, func() error {
			addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
			for _, addr := range addrs {
				one.Addrs = append(one.Addrs, addr.IPNet.String())
			}
			return err
		})
		all[name] = one
	}
	return all
}

// asBefore fails the test if the node differs, or has a note.
func (n *node) asBefore(t *testing.T, before map[string]state) {
	t.Helper()
	if diff := cmp.Diff(before, n.states(t)); diff != "" {
		t.Errorf("the node (-before +after):\n%s", diff)
	}
	n.noted(t, 0)
}

// noted fails the test if the node has not so many notes.
func (n *node) noted(t *testing.T, want int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(n.Dir, "*.json*"))
	if err != nil || len(files) != want {
		t.Errorf("%d notes, %v, want %d", len(files), err, want)
	}
}

// untouched fails the test if a process has worked in the folder.
func (n *node) untouched(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(n.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of notes exists (%v)", err)
	}
}

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// first returns the interface with the default routes, of both families.
func first(mac net.HardwareAddr) Interface {
	via4, via6 := netip.MustParseAddr("169.254.2.1"), netip.MustParseAddr("fe80::1234:5678:9abc")
	return Interface{Name: "eth1", MAC: mac, Addrs: []netip.Prefix{prefix("203.0.113.5/32"), prefix("2001:db8:1::5/128")}, Routes: []netif.Route{
		{Dst: prefix("169.254.2.1/32")},
		{Dst: prefix("0.0.0.0/0"), Gateway: via4},
		{Dst: prefix("fe80::1234:5678:9abc/128")},
		{Dst: prefix("::/0"), Gateway: via6},
	}}
}

// second returns an interface beside the first, that reaches its subnet only.
func second(mac net.HardwareAddr) Interface {
	return Interface{Name: "eth2", MAC: mac, Addrs: []netip.Prefix{prefix("198.51.100.7/32")}, Routes: []netif.Route{
		{Dst: prefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("169.254.2.1")},
	}}
}

// onDevice runs a command on a device of a namespace.
func onDevice(t *testing.T, space *netnstest.Namespace, name string, do ...func(netlink.Link) error) {
	t.Helper()
	space.Do(t, netnstest.OnLink(name, do...))
}

func withAddr(text string) func(netlink.Link) error {
	return func(link netlink.Link) error {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, addr)
	}
}
