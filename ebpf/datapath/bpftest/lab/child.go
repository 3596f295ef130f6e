// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
)

// ChildKind is a kind of interfaces that are derived from a device of a node.
type ChildKind string

// The kinds of a lab's children.
const (
	Macvlan ChildKind = "macvlan"
	IPVlan  ChildKind = "ipvlan"
)

// OnEveryChild runs a test with each kind of child.
func OnEveryChild(t *testing.T, test func(*testing.T, ChildKind)) {
	t.Helper()
	for _, kind := range []ChildKind{Macvlan, IPVlan} {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

func (k ChildKind) link(attrs netlink.LinkAttrs) netlink.Link {
	if k == IPVlan {
		return &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2, Flag: netlink.IPVLAN_FLAG_BRIDGE}
	}
	return &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
}

// Child makes a pod with an interface that is derived from a device of the node's, and has
// addresses of the nodes' network. It skips a test if the kernel lacks the kind.
func (n *Node) Child(t testing.TB, kind ChildKind, device int) *Pod {
	t.Helper()
	const number = 50
	p := &Pod{NS: bpftest.NewNamespace(t), Addrs: []netip.Addr{
		wire.IP(fmt.Sprintf("192.0.2.%d", number)), wire.IP(fmt.Sprintf("2001:db8::%x", number)),
	}}
	if kind != Macvlan {
		n.leave(t)
	}
	bpftest.In(t, n.NS, func() {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex, attrs.Namespace = "net1", device, netlink.NsFd(p.NS)
		err := netlink.LinkAdd(kind.link(attrs))
		if errors.Is(err, unix.EOPNOTSUPP) {
			t.Skipf("missing feature: the kernel module %s", kind)
		}
		bpftest.Must(t, err)
	})
	p.Peer = bpftest.BringUp(t, p.NS, "net1")
	bpftest.In(t, p.NS, func() {
		bpftest.AddAddr(t, p.Peer, netip.PrefixFrom(p.Addrs[0], 24))
		bpftest.AddAddr(t, p.Peer, netip.PrefixFrom(p.Addrs[1], 64))
	})
	return p
}

// join gives the device with the node's addresses a child, so that every test has programs that
// tell the node's packets from a child's. The child sends nothing itself.
func (n *Node) join(t testing.TB) {
	t.Helper()
	n.stranger = bpftest.NewNamespace(t)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.Namespace = stranger, n.Ifindex, netlink.NsFd(n.stranger)
	bpftest.Must(t, netlink.LinkAdd(Macvlan.link(attrs)))
}

const stranger = "stranger"

// leave removes the child: a device has children of one kind.
func (n *Node) leave(t testing.TB) {
	t.Helper()
	bpftest.In(t, n.stranger, func() {
		link, err := netlink.LinkByName(stranger)
		bpftest.Must(t, err)
		bpftest.DeleteDevice(t, link.Attrs().Index)
	})
}
