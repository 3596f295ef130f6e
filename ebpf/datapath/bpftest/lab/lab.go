// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/test/cgrouptest"
)

// The addresses of the host outside, and of the first node towards it, by family.
var (
	OutsideAddrs = []netip.Addr{wire.IP("198.51.100.1"), wire.IP("2001:db8:1::1")}
	RouterAddrs  = []netip.Addr{wire.IP("198.51.100.254"), wire.IP("2001:db8:1::254")}
)

// Lab is two nodes and a host outside, each a network namespace:
//
//	outside --- node 1 --- node 2
//
// with pods, each a namespace too, on the nodes.
type Lab struct {
	T       testing.TB
	device  PodDevice
	Nodes   []*Node
	Outside netns.NsHandle
	// BothOpen lets the pods of both VPCs on the first node leave, and not only the
	// first one's.
	BothOpen bool
}

// Node is a node of a lab.
type Node struct {
	NS       netns.NsHandle
	Datapath *bpftest.Datapath
	Config   programs.Config
	State    state.State
	Underlay [2]netip.Addr
	Ifindex  int // of the underlay
	Uplink   int // towards outside
	stranger netns.NsHandle
}

// Pod is a pod of a lab.
type Pod struct {
	NS      netns.NsHandle
	Ifindex int // of the host end
	Peer    int // of the pod's end
	Addrs   []netip.Addr
}

// The VPCs of a lab, and the source addresses of its nodes when they speak to shadow addresses.
const (
	VNI1         = 1001
	VNI2         = 1002
	NodeShadowV4 = "169.254.64.1"
	NodeShadowV6 = "fd00:a110::1"
)

// LinkPort is the UDP port of VXLAN links outside of every VPC.
const LinkPort = 14789

// newLab builds the nodes without any pod.
func newLab(t testing.TB) *Lab {
	t.Helper()
	bpftest.InNamespace(t)
	cgroup := bpftest.ChildCgroup(t)
	cgrouptest.Join(t, cgroup)
	l := &Lab{T: t, Outside: bpftest.NewNamespace(t)}
	l.makeNodes(2)
	bpftest.In(t, l.Nodes[0].NS, func() {
		here, there := bpftest.LinkTo(t, "underlay", state.MAC{2, 0, 0, 0, 1, 1}, l.Nodes[1].NS, "underlay", 1500)
		l.Nodes[0].addUnderlay(t, here)
		bpftest.In(t, l.Nodes[1].NS, func() { l.Nodes[1].addUnderlay(t, there) })
		l.connectOutside()
	})
	for _, n := range l.Nodes {
		bpftest.In(t, n.NS, func() { n.open(t, cgroup) })
	}
	return l
}

// makeNodes makes the namespaces of nodes.
func (l *Lab) makeNodes(count int) {
	for i := range count {
		l.Nodes = append(l.Nodes, &Node{NS: bpftest.NewNamespace(l.T), Underlay: [2]netip.Addr{
			wire.IP(fmt.Sprintf("192.0.2.%d", i+1)), wire.IP(fmt.Sprintf("2001:db8::%d", i+1)),
		}})
	}
}

func (n *Node) addUnderlay(t testing.TB, ifindex int) {
	t.Helper()
	n.Ifindex = ifindex
	bpftest.AddAddr(t, ifindex, netip.PrefixFrom(n.Underlay[0], 24))
	bpftest.AddAddr(t, ifindex, netip.PrefixFrom(n.Underlay[1], 64))
}

// connectOutside gives node 1 a way out whose MTU is smaller than it looks from the other side.
func (l *Lab) connectOutside() {
	t := l.T
	here, there := bpftest.LinkTo(t, "uplink", state.MAC{2, 0, 0, 0, 2, 1}, l.Outside, "uplink", 1500)
	l.Nodes[0].Uplink = here
	bpftest.AddAddr(t, here, wire.Prefix("198.51.100.254/24"))
	bpftest.AddAddr(t, here, wire.Prefix("2001:db8:1::254/64"))
	bpftest.In(t, l.Outside, func() {
		bpftest.AddAddr(t, there, wire.Prefix("198.51.100.1/24"))
		bpftest.AddAddr(t, there, wire.Prefix("2001:db8:1::1/64"))
		bpftest.AddRoute(
			t,
			&netlink.Route{Dst: bpftest.IPNet(wire.Prefix("169.254.64.0/18")), Gw: wire.IP("198.51.100.254").AsSlice()},
		)
		bpftest.AddRoute(
			t,
			&netlink.Route{Dst: bpftest.IPNet(wire.Prefix("fd00:a110::/64")), Gw: wire.IP("2001:db8:1::254").AsSlice()},
		)
	})
}

// open opens the node's datapath, in its namespace.
func (n *Node) open(t testing.TB, cgroup string) {
	t.Helper()
	n.join(t)
	bpftest.Enable(t, "net/ipv4/ip_forward")
	bpftest.Enable(t, "net/ipv6/conf/all/forwarding")
	bpftest.AddAddr(t, 1, bpftest.Host(wire.IP(NodeShadowV4)))
	bpftest.AddAddr(t, 1, bpftest.Host(wire.IP(NodeShadowV6)))
	n.Config = programs.Config{
		PinDir: bpftest.MountBPF(t), CgroupRoot: cgroup,
		VXLANIfindex: bpftest.AddTunnel(t, "tunnel"), Connections: bpftest.Connections,
		NodeShadow4: wire.IP(NodeShadowV4), NodeShadow6: wire.IP(NodeShadowV6),
		UnderlayMAC: n.mac(t), LinkPort: LinkPort, UnderlayIfindex: n.Ifindex, UnderlayIfindex6: n.Ifindex,
		TunnelSource4: n.Underlay[0], TunnelSource6: n.Underlay[1],
		ConnectedDatagrams: true,
	}
	n.Config.FragmentIfindex, n.Config.FragmentPeerIfindex = bpftest.AddFragmenter(t)
	n.Datapath = bpftest.OpenShared(t, n.Config)
}

// mac returns the Ethernet address of the underlay device.
func (n *Node) mac(t testing.TB) state.MAC {
	t.Helper()
	link, err := netlink.LinkByIndex(n.Ifindex)
	bpftest.Must(t, err)
	return state.MAC(link.Attrs().HardwareAddr)
}

// Restart ends the node's daemon and starts a new one with the node's state. It calls meanwhile
// while no daemon runs.
func (n *Node) Restart(t testing.TB, meanwhile func()) {
	t.Helper()
	bpftest.In(t, n.NS, func() {
		bpftest.Must(t, n.Datapath.Close())
		meanwhile()
		var err error
		if n.Datapath, err = bpftest.OpenOnce(t, n.Config); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Datapath.Close() })
		bpftest.Must(t, n.Datapath.Apply(n.State))
	})
}

// addPod makes a pod of both families on a node.
func (l *Lab) addPod(node int, vni uint32, number int, mac state.MAC) *Pod {
	t, n := l.T, l.Nodes[node]
	p := &Pod{NS: bpftest.NewNamespace(t), Addrs: []netip.Addr{
		wire.IP(fmt.Sprintf("10.0.1.%d", number)), wire.IP(fmt.Sprintf("fd10:0:0:1::%x", number)),
	}}
	slot := len(n.State.Interfaces) + 10
	shadow4 := wire.IP(fmt.Sprintf("169.254.64.%d", slot))
	shadow6 := wire.IP(fmt.Sprintf("fd00:a110::%x", slot))
	sources := map[netip.Addr]netip.Addr{shadow4: wire.IP(NodeShadowV4), shadow6: wire.IP(NodeShadowV6)}
	bpftest.In(t, n.NS, func() {
		p.Ifindex, p.Peer = l.device.join(t, slot, p.NS)
		for shadow, source := range sources {
			bpftest.AddRoute(t, &netlink.Route{
				LinkIndex: p.Ifindex,
				Dst:       bpftest.IPNet(bpftest.Host(shadow)),
				Src:       source.AsSlice(),
				Scope:     unix.RT_SCOPE_LINK,
			})
			bpftest.AddNeighbour(t, p.Ifindex, shadow, mac)
		}
	})
	bpftest.In(t, p.NS, func() { p.configure(t, mac) })
	n.State.Interfaces = append(n.State.Interfaces, state.Interface{
		Ifindex: p.Ifindex, VNI: vni, Addrs: p.Addrs, MAC: mac, Shadow4: shadow4, Shadow6: shadow6,
		Gateway4: wire.IP("10.0.1.1"), Gateway6: wire.IP("fd10:0:0:1::1"), Netkit: l.device.isNetkit(slot),
	})
	for i := range l.Nodes {
		for _, a := range p.Addrs {
			row := state.Address{VNI: vni, IP: a, Kind: state.Remote, Node: n.Underlay[i%len(n.Underlay)], MAC: mac}
			if i == node {
				row = state.Address{VNI: vni, IP: a, Kind: state.Local, Ifindex: p.Ifindex, MAC: mac}
			}
			l.Nodes[i].State.Addresses = append(l.Nodes[i].State.Addresses, row)
		}
	}
	return p
}

// configure sets up the pod's end, from inside.
func (p *Pod) configure(t testing.TB, mac state.MAC) {
	t.Helper()
	l, err := netlink.LinkByIndex(p.Peer)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetHardwareAddr(l, mac[:]); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetMTU(l, bpftest.PodMTU); err != nil {
		t.Fatal(err)
	}
	for _, a := range p.Addrs {
		bpftest.AddAddr(t, p.Peer, bpftest.Host(a))
	}
	for gateway, all := range map[string]string{"10.0.1.1": "0.0.0.0/0", "fe80::1": "::/0"} {
		if wire.IP(gateway).Is4() {
			bpftest.AddRoute(
				t,
				&netlink.Route{LinkIndex: p.Peer, Dst: bpftest.IPNet(wire.Prefix("10.0.1.1/32")), Scope: unix.RT_SCOPE_LINK},
			)
		}
		bpftest.AddRoute(t, &netlink.Route{
			LinkIndex: p.Peer, Dst: bpftest.IPNet(wire.Prefix(all)), Gw: wire.IP(gateway).AsSlice(),
			Flags: int(netlink.FLAG_ONLINK),
		})
	}
}

// Apply gives both nodes the state that the pods and the test have built.
// Node 1 reaches the other by the IPv4 underlay and is reached by IPv6.
func (l *Lab) Apply() {
	l.T.Helper()
	for i, n := range l.Nodes {
		n.State.VPCs = []state.VPC{
			{
				VNI:              VNI1,
				Prefixes:         []netip.Prefix{wire.Prefix("10.0.0.0/16"), wire.Prefix("fd10::/48")},
				EgressMasquerade: i == 0,
			},
			{
				VNI:              VNI2,
				Prefixes:         []netip.Prefix{wire.Prefix("10.0.0.0/16"), wire.Prefix("fd10::/48")},
				EgressMasquerade: i == 0 && l.BothOpen,
			},
		}
		n.State.Subnets = nil
		for _, vni := range []uint32{VNI1, VNI2} {
			n.State.Subnets = append(
				n.State.Subnets,
				state.Subnet{VNI: vni, Prefix: wire.Prefix("10.0.1.0/24")},
				state.Subnet{VNI: vni, Prefix: wire.Prefix("fd10:0:0:1::/64")},
			)
		}
		n.State.Nodes, n.State.Own = nil, n.Underlay[:]
		for _, other := range l.Nodes {
			n.State.Nodes = append(n.State.Nodes, other.Underlay[:]...)
		}
		bpftest.In(l.T, n.NS, func() {
			if err := n.Datapath.Apply(n.State); err != nil {
				l.T.Fatalf("apply on node %d: %v", i+1, err)
			}
		})
	}
}
