// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// amount is a number of packets and of their bytes, without outer headers.
type amount struct{ packets, bytes uint64 }

// crossed returns the amount of packets that a node has sent into the tunnel, and the amounts of
// packets from the tunnel, by result.
func crossed(t *testing.T, n *lab.Node) map[string]amount {
	t.Helper()
	counters, err := n.Datapath.Counters()
	bpftest.Must(t, err)
	m := map[string]amount{}
	for _, c := range counters {
		name := c.Direction.String() + "/" + c.Reason.String()
		if c.Direction.String() == "from_tunnel" || name == "from_pod/forwarded_remote" {
			m[name] = amount{c.Packets, c.Bytes}
		}
	}
	return m
}

// since returns the added packets and bytes, by name.
func since(before, after map[string]amount) map[string]amount {
	added := map[string]amount{}
	for name, a := range after {
		if b := before[name]; a != b {
			added[name] = amount{a.packets - b.packets, a.bytes - b.bytes}
		}
	}
	return added
}

// say sends datagrams of many lengths from a pod. The pod's stack fragments some of them.
func say(t *testing.T, from *lab.Pod, to netip.Addr) {
	t.Helper()
	bpftest.In(t, from.NS, func() {
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
		bpftest.Must(t, err)
		defer conn.Close()
		for _, size := range []int{0, 1, 2, 63, 512, 1200, 1391, 1402, 8000} {
			_, err := conn.Write(make([]byte, size))
			bpftest.Must(t, err)
		}
	})
}

// wrongly makes a node assume that another one has addresses.
func wrongly(l *lab.Lab, on int, node netip.Addr, addrs ...netip.Addr) {
	for _, a := range addrs {
		l.Nodes[on].State.Addresses = append(l.Nodes[on].State.Addresses, state.Address{
			VNI: lab.VNI1, IP: a, Kind: state.Remote, Node: node, MAC: state.MAC{2, 0, 10, 0, 1, 99},
		})
	}
}

// leave removes a VPC from a node, and its pods there with it.
func leave(t *testing.T, n *lab.Node, vni uint32) {
	t.Helper()
	s := &n.State
	s.VPCs = slices.DeleteFunc(s.VPCs, func(v state.VPC) bool { return v.VNI == vni })
	s.Subnets = slices.DeleteFunc(s.Subnets, func(v state.Subnet) bool { return v.VNI == vni })
	s.Interfaces = slices.DeleteFunc(s.Interfaces, func(v state.Interface) bool { return v.VNI == vni })
	s.Addresses = slices.DeleteFunc(s.Addresses, func(v state.Address) bool { return v.VNI == vni })
	bpftest.In(t, n.NS, func() { bpftest.Must(t, n.Datapath.Apply(*s)) })
}

// expectReturned sends from a pod of the first node, and checks that each packet that the
// node sent is returned once by the second, with all of its bytes, and goes no further.
func expectReturned(t *testing.T, l *lab.Lab, from *lab.Pod, to netip.Addr) {
	t.Helper()
	const end = "from_tunnel/stale_row"
	before := []map[string]amount{crossed(t, l.Nodes[0]), crossed(t, l.Nodes[1])}
	say(t, from, to)
	bpftest.Eventually(t, "all packets have come back", func() bool {
		back := since(before[0], crossed(t, l.Nodes[0]))
		return back[end].packets >= back["from_pod/forwarded_remote"].packets
	})
	here, there := since(before[0], crossed(t, l.Nodes[0])), since(before[1], crossed(t, l.Nodes[1]))
	out := here["from_pod/forwarded_remote"]
	if out.packets < 9 {
		t.Fatalf("%d packets were sent", out.packets)
	}
	options := cmp.AllowUnexported(amount{})
	if d := cmp.Diff(map[string]amount{"from_pod/forwarded_remote": out, end: out}, here, options); d != "" {
		t.Errorf("at the sender's node (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]amount{"from_tunnel/returned": out}, there, options); d != "" {
		t.Errorf("at the other node (-want +got):\n%s", d)
	}
}

// Each of the tables is wrong in a way that a change of the cluster can leave it for a while.
func TestPacket_WrongRow_ReturnedOnce(t *testing.T) {
	lab.OnEveryDevice(t, testPacketWrongRowReturnedOnce)
}

func testPacketWrongRowReturnedOnce(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	nobody := []netip.Addr{wire.IP("10.0.1.99"), wire.IP("fd10:0:0:1::99")}
	circle := []netip.Addr{wire.IP("10.0.1.98"), wire.IP("fd10:0:0:1::98")}
	over6 := []netip.Addr{wire.IP("10.0.1.97"), wire.IP("fd10:0:0:1::97")}
	wrongly(l, 0, l.Nodes[1].Underlay[0], nobody...)
	wrongly(l, 0, l.Nodes[1].Underlay[0], circle...)
	wrongly(l, 1, l.Nodes[0].Underlay[0], circle...)
	wrongly(l, 0, l.Nodes[1].Underlay[1], over6...)
	l.Apply()
	for family, name := range []string{"IPv4", "IPv6"} {
		t.Run(name, func(t *testing.T) {
			expectReturned(t, l, red[10], nobody[family])
			expectReturned(t, l, red[10], circle[family])
			expectReturned(t, l, red[10], over6[family])
		})
	}
	t.Run("a VPC that has left the node", func(t *testing.T) {
		leave(t, l.Nodes[1], lab.VNI1)
		for family := range 2 {
			expectReturned(t, l, red[10], red[20].Addrs[family])
			expectReturned(t, l, red[10], over6[family])
		}
	})
}

// data returns the bytes behind the headers of TCP packets, which have timestamps.
func (a amount) data(family int) uint64 { return a.bytes - a.packets*[]uint64{66, 86}[family] }

// Data that a stack sends in long packets, to be cut by the NIC, come back completely. On their
// way back the kernel may cut the packets.
func TestLongPackets_WrongRow_ReturnedComplete(t *testing.T) {
	lab.OnEveryDevice(t, testLongPacketsWrongRowReturnedComplete)
}

func testLongPacketsWrongRowReturnedComplete(t *testing.T, device lab.PodDevice) {
	for family, name := range []string{"IPv4", "IPv6"} {
		// Each family has a lab of its own. An ended connection continues to send its
		// unacknowledged data, and would be counted with the connections of the other family.
		t.Run(name, func(t *testing.T) {
			l, red, _ := lab.TwoTenants(t, device)
			to := netip.AddrPortFrom(red[20].Addrs[family], 8080)
			listener := bpftest.Listen(t, red[20].NS, to)
			conn, err := bpftest.Dial(t, red[10].NS, to, 0)
			bpftest.Must(t, err)
			bpftest.Accept(t, listener)
			forget(t, l.Nodes[1], to.Addr())
			before := []map[string]amount{crossed(t, l.Nodes[0]), crossed(t, l.Nodes[1])}
			const size = 12_000 // which the stack sends at once
			_, err = conn.Write(make([]byte, size))
			bpftest.Must(t, err)
			bpftest.Eventually(t, "all of a long packet has come back", func() bool {
				there := since(before[1], crossed(t, l.Nodes[1]))["from_tunnel/returned"].data(family)
				here := since(before[0], crossed(t, l.Nodes[0]))
				out := here["from_pod/forwarded_remote"]
				long := out.data(family) >= size && out.bytes > out.packets*(bpftest.PodMTU+14)
				return long && out.data(family) == there && there == here["from_tunnel/stale_row"].data(family)
			})
		})
	}
}

// forget removes the row of an address from a node.
func forget(t *testing.T, n *lab.Node, ip netip.Addr) {
	t.Helper()
	n.State.Addresses = slices.DeleteFunc(n.State.Addresses, func(a state.Address) bool { return a.VNI == lab.VNI1 && a.IP == ip })
	bpftest.In(t, n.NS, func() { bpftest.Must(t, n.Datapath.Apply(n.State)) })
}
