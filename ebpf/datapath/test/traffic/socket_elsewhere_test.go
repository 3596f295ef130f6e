// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// The node reaches backends of all kinds by services of its VPC, and by services that all VPCs
// share. It reaches an address without a service as without services.
func TestNode_ServicesOfItsVPC_Reached(t *testing.T) {
	l, red, _ := lab.ScaledTenants(t, lab.Veth)
	n := l.Nodes[0]
	node := nodeOfVPC(t, l)
	addrs := n.State.Namespaces[0].Memberships[0].Addrs
	inside, outside, own := netip.AddrPortFrom(
		wire.IP("10.96.0.10"),
		80,
	), netip.AddrPortFrom(
		wire.IP("10.96.0.1"),
		80,
	), netip.AddrPortFrom(
		wire.IP("10.96.1.9"),
		80,
	)
	n.State.Services = append(
		n.State.Services,
		state.Service{VIP: inside.Addr(), Port: 80, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: red[20].Addrs[0], Port: 8080}}},
		state.Service{VIP: outside.Addr(), Port: 80, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: lab.OutsideAddrs[0], Port: 8080}}},
		state.Service{
			VNI:      lab.VNI1,
			VIP:      own.Addr(),
			Port:     80,
			Proto:    state.ProtoTCP,
			Backends: []state.Backend{{IP: lab.OutsideAddrs[0], Port: 8080, Outside: true}},
		},
	)
	l.Apply()
	beyond := bpftest.Listen(t, l.Outside, netip.AddrPortFrom(lab.OutsideAddrs[0], 8080))
	for _, dst := range []netip.AddrPort{own, outside} {
		conn, err := bpftest.Dial(t, n.NS, dst, 0)
		if err != nil {
			t.Fatalf("the node does not reach what is outside by %s: %v", dst, err)
		}
		peer, _ := bpftest.Accept(t, beyond)
		lab.Talk(t, conn, peer)
	}
	listener := bpftest.Listen(t, red[20].NS, netip.AddrPortFrom(red[20].Addrs[0], 8080))
	for _, dst := range []netip.AddrPort{netip.AddrPortFrom(wire.IP(world.VIPB), 80), inside} {
		conn, err := bpftest.Dial(t, n.NS, dst, 0)
		if err != nil {
			t.Fatalf("the node does not reach %s: %v", dst, err)
		}
		peer, seen := bpftest.Accept(t, listener)
		if seen != addrs[0] {
			t.Errorf("the backend sees %s, want %s", seen, addrs[0])
		}
		lab.Talk(t, conn, peer)
	}
	for _, vip := range []netip.Addr{own.Addr(), inside.Addr(), outside.Addr(), wire.IP(world.VipB6)} {
		refusesAtSocket(t, n, node, vip, 81, 81)
	}
}

// nodeOfVPC gives the first node a place in the first tenant's VPC, and returns the node as a
// client. The node has a route to all virtual addresses.
func nodeOfVPC(t *testing.T, l *lab.Lab) *lab.Pod {
	t.Helper()
	n := l.Nodes[0]
	addrs := joinVPC(l)
	n.State.Namespaces = []state.Namespace{{
		Cookie: cookieOf(t, n.NS), Shared: true,
		Memberships: []state.Membership{{VNI: lab.VNI1, Addrs: addrs, Ifindex: n.State.Interfaces[len(n.State.Interfaces)-1].Ifindex}},
	}}
	l.Apply()
	bpftest.In(t, n.NS, func() {
		for _, services := range []string{"10.96.0.0/16", "fd96::/64"} {
			bpftest.AddRoute(t, &netlink.Route{LinkIndex: n.Uplink, Dst: bpftest.IPNet(wire.Prefix(services))})
		}
	})
	return &lab.Pod{NS: n.NS}
}

func TestNode_ServiceWithoutBackend_Refused(t *testing.T) {
	l, _, _ := lab.ScaledTenants(t, lab.Veth)
	n, node := l.Nodes[0], nodeOfVPC(t, l)
	shared := []string{"10.96.0.2", "fd96::2"}
	for _, vip := range shared {
		n.State.Services = append(n.State.Services,
			state.Service{VIP: wire.IP(vip), Port: 80, Proto: state.ProtoTCP}, state.Service{VIP: wire.IP(vip), Port: 53, Proto: state.ProtoUDP})
	}
	l.Apply()
	for _, vip := range append(shared, world.VipNone, world.VipNone6) {
		refusesAtSocket(t, n, node, wire.IP(vip), 80, 53)
	}
	fd := multipath(t, node, unix.AF_INET)
	if err := unix.Connect(fd, sockaddrOf(unix.AF_INET, netip.AddrPortFrom(wire.IP(world.VipNone), 80))); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("a connect of MPTCP: %v, want a refusal", err)
	}
}

// Another proxy may serve a Service whose endpoints count for it, but only to the node: packets
// of pods with a Service's address never reach the node's stack.
func TestNode_ServiceEndpointsLeftOut_NotRefused(t *testing.T) {
	l, red, _ := socketTenants(t)
	n := l.Nodes[0]
	pods := n.State.Namespaces
	node := nodeOfVPC(t, l)
	n.State.Namespaces = append(n.State.Namespaces, pods...)
	for i, s := range n.State.Services {
		n.State.Services[i].LeftOut = len(s.Backends) == 0
	}
	l.Apply()
	before := bpftest.Counts(t, n.Datapath)
	for _, vip := range []string{world.VipNone, world.VipNone6} {
		connected(t, node, netip.AddrPortFrom(wire.IP(vip), 53))
		_, err := unconnected(t, node, "udp").WriteToUDPAddrPort([]byte("hello"), netip.AddrPortFrom(wire.IP(vip), 53))
		bpftest.Must(t, err)
	}
	got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))
	if got["socket/service_rewritten"] != 0 || got["socket/replied_refused"] != 0 {
		t.Errorf("to the node, what another proxy may serve was counted as %v", got)
	}
	refusesAtSocket(t, n, red[10], wire.IP(world.VipNone), 80, 53)
	n.State.Services = slices.DeleteFunc(n.State.Services, func(s state.Service) bool { return s.VIP == wire.IP(world.VipNone) })
	for _, c := range []struct {
		port  uint16
		proto uint8
	}{{80, state.ProtoTCP}, {53, state.ProtoUDP}} {
		n.State.Services = append(n.State.Services, state.Service{VNI: lab.VNI1, VIP: wire.IP(world.VipNone), Port: c.port, Proto: c.proto})
	}
	l.Apply()
	refusesAtSocket(t, n, node, wire.IP(world.VipNone), 80, 53)
}

// behindMacvlan makes pods with macvlan interfaces on a device of a node. No program of packets
// sees the packets that they send. Each call has its own addresses.
func behindMacvlan(t *testing.T, n *lab.Node, trunk string, count int) []*lab.Pod {
	t.Helper()
	pods := make([]*lab.Pod, count)
	bpftest.In(t, n.NS, func() {
		parent := bpftest.AddPair(t, trunk, trunk+"-peer")
		far, err := netlink.LinkByName(trunk + "-peer")
		bpftest.Must(t, err)
		bpftest.Must(t, netlink.LinkSetUp(far)) // carrier
		for i := range pods {
			p := &lab.Pod{NS: bpftest.NewNamespace(t), Addrs: []netip.Addr{wire.IP(fmt.Sprintf("10.0.1.%d", 50+i)), wire.IP(fmt.Sprintf("fd10:0:0:1::%x", 0x50+i))}}
			err := netlink.LinkAdd(&netlink.Macvlan{
				LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("mv%d", i), ParentIndex: parent, Namespace: netlink.NsFd(p.NS)},
				Mode:      netlink.MACVLAN_MODE_BRIDGE,
			})
			if errors.Is(err, unix.EOPNOTSUPP) {
				t.Skip("missing feature: macvlan devices")
			}
			bpftest.Must(t, err)
			bpftest.In(t, p.NS, func() {
				device, err := netlink.LinkByName(fmt.Sprintf("mv%d", i))
				bpftest.Must(t, err)
				bpftest.Must(t, netlink.LinkSetUp(device))
				bpftest.AddAddr(t, device.Attrs().Index, netip.PrefixFrom(p.Addrs[0], 24))
				bpftest.AddAddr(t, device.Attrs().Index, netip.PrefixFrom(p.Addrs[1], 64))
			})
			pods[i] = p
		}
	})
	return pods
}

func TestMacvlanPod_Services_Reached(t *testing.T) {
	l, _, _ := lab.ScaledTenants(t, lab.Veth)
	n := l.Nodes[0]
	pods := behindMacvlan(t, n, "trunk", 2)
	n.State.Namespaces = []state.Namespace{{
		Cookie: cookieOf(t, pods[0].NS), Memberships: []state.Membership{{VNI: lab.VNI1, Addrs: pods[0].Addrs}},
	}}
	for family, vip := range []string{world.VIPB, world.VipB6} {
		backend := state.Backend{IP: pods[1].Addrs[family], Port: 8080}
		replaceBackends(l, wire.IP(vip), state.ProtoTCP, backend)
		replaceBackends(l, wire.IP(vip), state.ProtoUDP, backend)
		listener := bpftest.Listen(t, pods[1].NS, netip.AddrPortFrom(backend.IP, backend.Port))
		conn, err := bpftest.Dial(t, pods[0].NS, netip.AddrPortFrom(wire.IP(vip), 80), 0)
		if err != nil {
			t.Fatalf("connect to %s: %v", vip, err)
		}
		peer, seen := bpftest.Accept(t, listener)
		if seen != pods[0].Addrs[family] {
			t.Errorf("the backend sees %s", seen)
		}
		lab.Talk(t, conn, peer)
		server := serve(t, pods[1], netip.AddrPortFrom(backend.IP, backend.Port))
		dns := netip.AddrPortFrom(wire.IP(vip), 53)
		client := unconnected(t, pods[0], "udp")
		_, err = client.WriteToUDPAddrPort([]byte("hello"), dns)
		bpftest.Must(t, err)
		echo(t, server)
		hears(t, client, dns)
		client = connected(t, pods[0], dns)
		_, err = client.Write([]byte("hello"))
		bpftest.Must(t, err)
		echo(t, server)
		hears(t, client, dns)
	}
	nothingByPackets(t, l)
}
