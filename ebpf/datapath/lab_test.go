// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/test/cgrouptest"
)

// lab is two nodes and a host outside, each a network namespace:
//
//	outside --- node 1 --- node 2
//
// with pods, each a namespace too, on the nodes.
type lab struct {
	t       *testing.T
	device  podDevice
	nodes   [2]*labNode
	outside netns.NsHandle
	// bothOpen lets the pods of both VPCs on the first node leave, and not only the
	// first one's.
	bothOpen bool
}

type labNode struct {
	ns       netns.NsHandle
	d        *opened
	cfg      programs.Config
	state    state.State
	underlay [2]netip.Addr
	ifindex  int // of the underlay
	uplink   int // towards outside
}

type labPod struct {
	ns      netns.NsHandle
	ifindex int // of the host end
	peer    int // of the pod's end
	addrs   []netip.Addr
}

const (
	labVNI1, labVNI2 = 1001, 1002
	nodeShadowV4     = "169.254.64.1"
	nodeShadowV6     = "fd00:a110::1"
)

// labMTU is that of pods: 1500 less VXLAN over IPv6.
const labMTU = 1430

// newNs makes a namespace and returns to the one the thread is in.
func newNs(t *testing.T) netns.NsHandle {
	t.Helper()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
	if err := netns.Set(home); err != nil {
		t.Fatal(err)
	}
	return ns
}

// in runs f with the thread inside ns.
func in(t *testing.T, ns netns.NsHandle, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if err := netns.Set(ns); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := netns.Set(home); err != nil {
			panic(fmt.Sprintf("return to the test's namespace: %v", err))
		}
	}()
	f()
}

// enable sets a kernel setting to 1.
func enable(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
}

// linkTo makes a veth pair between the current namespace and another, and
// returns the indexes of both ends.
func linkTo(t *testing.T, name string, mac state.MAC, other netns.NsHandle, peer string, mtu int) (here, there int) {
	t.Helper()
	here = addLink(t, &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name, MTU: mtu, HardwareAddr: mac[:]}, PeerName: peer, PeerNamespace: netlink.NsFd(other),
	})
	return here, bringUp(t, other, peer)
}

// bringUp sets a device of another namespace up and returns its index there.
func bringUp(t *testing.T, other netns.NsHandle, peer string) (there int) {
	t.Helper()
	in(t, other, func() {
		l, err := netlink.LinkByName(peer)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
		there = l.Attrs().Index
	})
	return there
}

// addAddr adds an address that is usable at once.
func addAddr(t *testing.T, ifindex int, prefix netip.Prefix) {
	t.Helper()
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		t.Fatal(err)
	}
	a := &netlink.Addr{IPNet: ipNet(prefix)}
	if prefix.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	if err := netlink.AddrAdd(l, a); err != nil {
		t.Fatalf("add address %s: %v", prefix, err)
	}
	if l.Attrs().Flags&net.FlagUp != 0 {
		awaitLocal(t, prefix.Addr())
	}
}

// awaitLocal waits until the kernel takes an address for its own, which for IPv6
// it does some time after the address was added.
func awaitLocal(t *testing.T, addr netip.Addr) {
	t.Helper()
	limit, again := time.After(20*time.Second), time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		routes, err := netlink.RouteGet(addr.AsSlice())
		if err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
			return
		}
		select {
		case <-limit:
			t.Fatalf("%s is not the kernel's own: %v, %v", addr, routes, err)
		case <-again.C:
		}
	}
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func host(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }

func addRoute(t *testing.T, r *netlink.Route) {
	t.Helper()
	if err := netlink.RouteAdd(r); err != nil {
		t.Fatalf("add route %s: %v", r, err)
	}
}

func addNeighbour(t *testing.T, ifindex int, ip netip.Addr, mac state.MAC) {
	t.Helper()
	err := netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: ifindex, IP: ip.AsSlice(), HardwareAddr: mac[:], State: netlink.NUD_PERMANENT,
	})
	if err != nil {
		t.Fatalf("add neighbour %s: %v", ip, err)
	}
}

// newLab builds the nodes without any pod.
func newLab(t *testing.T) *lab {
	t.Helper()
	inNetns(t)
	cgroup := childCgroup(t)
	cgrouptest.Join(t, cgroup)
	l := &lab{t: t, outside: newNs(t)}
	for i := range l.nodes {
		l.nodes[i] = &labNode{ns: newNs(t), underlay: [2]netip.Addr{
			Ip(fmt.Sprintf("192.0.2.%d", i+1)), Ip(fmt.Sprintf("2001:db8::%d", i+1)),
		}}
	}
	in(t, l.nodes[0].ns, func() {
		here, there := linkTo(t, "underlay", state.MAC{2, 0, 0, 0, 1, 1}, l.nodes[1].ns, "underlay", 1500)
		l.nodes[0].addUnderlay(t, here)
		in(t, l.nodes[1].ns, func() { l.nodes[1].addUnderlay(t, there) })
		l.connectOutside()
	})
	for _, n := range l.nodes {
		in(t, n.ns, func() { n.open(t, cgroup) })
	}
	return l
}

func (n *labNode) addUnderlay(t *testing.T, ifindex int) {
	n.ifindex = ifindex
	addAddr(t, ifindex, netip.PrefixFrom(n.underlay[0], 24))
	addAddr(t, ifindex, netip.PrefixFrom(n.underlay[1], 64))
}

// connectOutside gives node 1 a way out that is narrower than it looks from
// the other side.
func (l *lab) connectOutside() {
	t := l.t
	here, there := linkTo(t, "uplink", state.MAC{2, 0, 0, 0, 2, 1}, l.outside, "uplink", 1500)
	l.nodes[0].uplink = here
	addAddr(t, here, Px("198.51.100.254/24"))
	addAddr(t, here, Px("2001:db8:1::254/64"))
	in(t, l.outside, func() {
		addAddr(t, there, Px("198.51.100.1/24"))
		addAddr(t, there, Px("2001:db8:1::1/64"))
		addRoute(t, &netlink.Route{Dst: ipNet(Px("169.254.64.0/18")), Gw: Ip("198.51.100.254").AsSlice()})
		addRoute(t, &netlink.Route{Dst: ipNet(Px("fd00:a110::/64")), Gw: Ip("2001:db8:1::254").AsSlice()})
	})
}

// open opens the node's datapath, in its namespace.
func (n *labNode) open(t *testing.T, cgroup string) {
	enable(t, "net/ipv4/ip_forward")
	enable(t, "net/ipv6/conf/all/forwarding")
	addAddr(t, 1, host(Ip(nodeShadowV4)))
	addAddr(t, 1, host(Ip(nodeShadowV6)))
	n.cfg = programs.Config{
		PinDir: bpffs(t), CgroupRoot: cgroup, VXLANIfindex: addTunnel(t, "tunnel"), Connections: fewConnections,
		NodeShadow4: Ip(nodeShadowV4), NodeShadow6: Ip(nodeShadowV6),
		UnderlayIfindex: n.ifindex, UnderlayIfindex6: n.ifindex, TunnelSource4: n.underlay[0], TunnelSource6: n.underlay[1],
		ConnectedDatagrams: true,
	}
	n.cfg.FragmentIfindex, n.cfg.FragmentPeerIfindex = addFragmenter(t)
	n.d = openLoaded(t, n.cfg)
}

// restart ends the node's daemon and starts another with the node's state; meanwhile
// is what happens while there is none.
func (n *labNode) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	in(t, n.ns, func() {
		Must(t, n.d.Close())
		meanwhile()
		var err error
		if n.d, err = openOnce(t, n.cfg); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.d.Close() })
		Must(t, n.d.Apply(n.state))
	})
}

// addPod makes a pod of both families on a node.
func (l *lab) addPod(node int, vni uint32, number int, mac state.MAC) *labPod {
	t, n := l.t, l.nodes[node]
	p := &labPod{ns: newNs(t), addrs: []netip.Addr{
		Ip(fmt.Sprintf("10.0.1.%d", number)), Ip(fmt.Sprintf("fd10:0:0:1::%x", number)),
	}}
	slot := len(n.state.Interfaces) + 10
	shadow4 := Ip(fmt.Sprintf("169.254.64.%d", slot))
	shadow6 := Ip(fmt.Sprintf("fd00:a110::%x", slot))
	in(t, n.ns, func() {
		p.ifindex, p.peer = l.device.join(t, slot, p.ns)
		for shadow, source := range map[netip.Addr]netip.Addr{shadow4: Ip(nodeShadowV4), shadow6: Ip(nodeShadowV6)} {
			addRoute(t, &netlink.Route{LinkIndex: p.ifindex, Dst: ipNet(host(shadow)), Src: source.AsSlice(), Scope: unix.RT_SCOPE_LINK})
			addNeighbour(t, p.ifindex, shadow, mac)
		}
	})
	in(t, p.ns, func() { p.configure(t, mac) })
	n.state.Interfaces = append(n.state.Interfaces, state.Interface{
		Ifindex: p.ifindex, VNI: vni, Addrs: p.addrs, MAC: mac, Shadow4: shadow4, Shadow6: shadow6,
		Gateway4: Ip("10.0.1.1"), Gateway6: Ip("fd10:0:0:1::1"), Netkit: l.device.isNetkit(slot),
	})
	for i := range l.nodes {
		for _, a := range p.addrs {
			row := state.Address{VNI: vni, IP: a, Kind: state.Remote, Node: n.underlay[i], MAC: mac}
			if i == node {
				row = state.Address{VNI: vni, IP: a, Kind: state.Local, Ifindex: p.ifindex, MAC: mac}
			}
			l.nodes[i].state.Addresses = append(l.nodes[i].state.Addresses, row)
		}
	}
	return p
}

// configure sets up the pod's end, from inside.
func (p *labPod) configure(t *testing.T, mac state.MAC) {
	l, err := netlink.LinkByIndex(p.peer)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetHardwareAddr(l, mac[:]); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetMTU(l, labMTU); err != nil {
		t.Fatal(err)
	}
	for _, a := range p.addrs {
		addAddr(t, p.peer, host(a))
	}
	for gateway, all := range map[string]string{"10.0.1.1": "0.0.0.0/0", "fe80::1": "::/0"} {
		if Ip(gateway).Is4() {
			addRoute(t, &netlink.Route{LinkIndex: p.peer, Dst: ipNet(Px("10.0.1.1/32")), Scope: unix.RT_SCOPE_LINK})
		}
		addRoute(t, &netlink.Route{
			LinkIndex: p.peer, Dst: ipNet(Px(all)), Gw: Ip(gateway).AsSlice(), Flags: int(netlink.FLAG_ONLINK),
		})
	}
}

// apply gives both nodes the state that the pods and the test have built.
// Node 1 reaches the other by the IPv4 underlay and is reached by IPv6.
func (l *lab) apply() {
	l.t.Helper()
	for i, n := range l.nodes {
		n.state.VPCs = []state.VPC{
			{VNI: labVNI1, Prefixes: []netip.Prefix{Px("10.0.0.0/16"), Px("fd10::/48")}, EgressMasquerade: i == 0},
			{VNI: labVNI2, Prefixes: []netip.Prefix{Px("10.0.0.0/16"), Px("fd10::/48")}, EgressMasquerade: i == 0 && l.bothOpen},
		}
		n.state.Subnets = nil
		for _, vni := range []uint32{labVNI1, labVNI2} {
			n.state.Subnets = append(n.state.Subnets, state.Subnet{VNI: vni, Prefix: Px("10.0.1.0/24")}, state.Subnet{VNI: vni, Prefix: Px("fd10:0:0:1::/64")})
		}
		n.state.Nodes = nil
		for _, other := range l.nodes {
			n.state.Nodes = append(n.state.Nodes, other.underlay[:]...)
		}
		in(l.t, n.ns, func() {
			if err := n.d.Apply(n.state); err != nil {
				l.t.Fatalf("apply on node %d: %v", i+1, err)
			}
		})
	}
}
