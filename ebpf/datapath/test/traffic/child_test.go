// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestNodeNetworkPod_PacketSocket_NothingAsNode(t *testing.T) {
	lab.OnEveryChild(t, testSendsNothingAsANode)
}

func testSendsNothingAsANode(t *testing.T, kind lab.ChildKind) {
	s := newSegment(t, kind)
	own, this, other := s.pod.Addrs, s.nodes[0].Underlay[:], s.nodes[1].Underlay[:]
	for bypass, how := range []string{"", ", past the queue"} {
		word := s.next()
		dropped, passing := sentFrames(own, this, other, word)
		for name, frame := range dropped {
			before := s.forged("to_tunnel")
			if s.arrives(word, func() { s.send(bySocket(bypass), frame) }) {
				t.Errorf("%s%s: it arrived", name, how)
			}
			if got := s.forged("to_tunnel") - before; got != 1 {
				t.Errorf("%s%s: %d were counted", name, how, got)
			}
		}
		for name, frame := range passing {
			before := s.forged("to_tunnel")
			if !s.arrives(word, func() { s.send(bySocket(bypass), frame) }) {
				t.Errorf("%s%s: it did not arrive", name, how)
			}
			if got := s.forged("to_tunnel") - before; got != 0 {
				t.Errorf("%s%s: %d were counted", name, how, got)
			}
		}
	}
}

func TestNodeNetworkPod_IPSocket_NothingAsNode(t *testing.T) {
	lab.OnEveryChild(t, testNoIPSocketSendsAsANode)
}

func testNoIPSocketSendsAsANode(t *testing.T, kind lab.ChildKind) {
	s := newSegment(t, kind)
	s.knowsOther()
	for family := range 2 {
		own, this, other := s.pod.Addrs[family], s.nodes[0].Underlay[family], s.nodes[1].Underlay[family]
		for _, c := range []struct {
			from    netip.Addr
			port    uint16
			dropped bool
		}{
			{this, 9999, true},
			{this, programs.DefaultTunnelPort, true},
			{own, programs.DefaultTunnelPort, true},
			{own, lab.LinkPort, true},
			{own, 9999, false},
		} {
			to := netip.AddrPortFrom(other, c.port)
			word := s.next()
			for how, send := range map[string]func(){
				"a transparent socket": func() { datagram(t, netip.AddrPortFrom(c.from, 40000), to, word) },
				"a raw socket":         func() { rawPacket(t, plain(c.from, other, c.port, word).Bytes()[14:], to) },
			} {
				before := s.forged("to_tunnel")
				came := s.arrives(word, func() { bpftest.In(t, s.pod.NS, send) })
				if got := s.forged("to_tunnel") - before; came == c.dropped || (got == 1) != c.dropped {
					t.Errorf("%s from %s to %s: arrived %t, %d were counted", how, c.from, to, came, got)
				}
			}
		}
	}
}

// A pod's namespace has the node's settings at first, so it may forward. A forwarded packet was
// received, and has no socket.
func TestNodeNetworkPod_Forwarding_NothingAsNode(t *testing.T) {
	lab.OnEveryChild(t, testForwardsNothingAsANode)
}

func testForwardsNothingAsANode(t *testing.T, kind lab.ChildKind) {
	s := newSegment(t, kind)
	s.knowsOther()
	bpftest.In(t, s.pod.NS, func() {
		bpftest.Enable(t, "net/ipv4/ip_forward")
		bpftest.Enable(t, "net/ipv4/conf/lo/forwarding")
		bpftest.Enable(t, "net/ipv6/conf/all/forwarding")
	})
	for family, far := range []netip.Addr{wire.IP("198.18.0.1"), wire.IP("2001:db8:9::1")} {
		this, other := s.nodes[0].Underlay[family], s.nodes[1].Underlay[family]
		for _, c := range []struct {
			from    netip.Addr
			port    uint16
			dropped bool
		}{{this, 9999, true}, {far, programs.DefaultTunnelPort, true}, {far, 9999, false}} {
			word := s.next()
			frame := plain(c.from, other, c.port, word)
			frame.EthDst, frame.EthSrc = state.MAC{}, state.MAC{}
			before := s.forged("to_tunnel")
			came := s.arrives(word, func() {
				bpftest.In(t, s.pod.NS, func() { sendOn(t, 1, bySocket(0), frame.Bytes()) })
			})
			if got := s.forged("to_tunnel") - before; came == c.dropped || (got == 1) != c.dropped {
				t.Errorf("from %s to %s port %d: arrived %t, %d were counted", c.from, other, c.port, came, got)
			}
		}
	}
}

// The kernel cuts such a frame, and the pieces but the last have no socket.
func TestNodeNetworkPod_Segments_NotSentAsNode(t *testing.T) {
	lab.OnEveryChild(t, testNoSegmentsAreSentAsANode)
}

func testNoSegmentsAreSentAsANode(t *testing.T, kind lab.ChildKind) {
	s := newSegment(t, kind)
	const tcp4, udp4, part, headers = 1, 3, 512, 14 + 20 + 20
	own, this, other := s.pod.Addrs[0], s.nodes[0].Underlay[0], s.nodes[1].Underlay[0]
	for name, c := range map[string]struct {
		from    netip.Addr
		gso     byte
		dropped bool
	}{
		"segments of TCP as a node":    {this, tcp4, true},
		"segments of TCP":              {own, tcp4, false},
		"fragments of UDP as a node":   {this, udp4, true},
		"fragments of UDP to a tunnel": {own, udp4, true},
	} {
		word := s.next()
		payload := append(word, make([]byte, 3*part)...)
		frame := plain(c.from, other, programs.DefaultTunnelPort, payload)
		length, checksum := byte(14+20+8), byte(6)
		if c.gso == tcp4 {
			frame.L4 = wire.TCP{Sport: 40000, Dport: programs.DefaultTunnelPort, Payload: payload}
			length, checksum = headers, 16
		}
		// struct virtio_net_hdr: flags, kind, length of the headers, size of a part,
		// start and offset of the checksum.
		head := []byte{1, c.gso, length, 0, 0, part >> 8, 14 + 20, 0, checksum, 0}
		before := s.forged("to_tunnel")
		came := s.arrives(word, func() {
			s.send(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1) }, append(head, frame.Bytes()...))
		})
		if got := s.forged("to_tunnel") - before; came == c.dropped || (got > 0) != c.dropped {
			t.Errorf("%s: arrived %t, %d were counted", name, came, got)
		}
	}
}

// With CAP_NET_ADMIN a pod can give itself a node's address, which its kernel then tells the
// network. Such packets have no socket.
func TestNodeNetworkPod_NodeAddress_NotAnnounced(t *testing.T) {
	lab.OnEveryChild(t, testDoesNotTellThatItIsANode)
}

func testDoesNotTellThatItIsANode(t *testing.T, kind lab.ChildKind) {
	s := newSegment(t, kind)
	other := s.nodes[1].Underlay
	bpftest.In(t, s.pod.NS, func() {
		bpftest.AddAddr(t, s.pod.Peer, bpftest.Host(other[0]))
		bpftest.Enable(t, "net/ipv6/conf/net1/ndisc_notify")
		bpftest.AddAddr(t, s.pod.Peer, bpftest.Host(other[1]))
	})
	before := s.forged("to_tunnel")
	asked := s.arrives(other[0].AsSlice(), func() {
		bpftest.In(t, s.pod.NS, func() {
			// The kernel asks from the address of the datagram.
			datagram(t, netip.AddrPortFrom(other[0], 40000), netip.AddrPortFrom(wire.IP("192.0.2.99"), 9999), nil)
		})
	})
	if got := s.forged("to_tunnel") - before; asked || got == 0 {
		t.Errorf("a request as a node: arrived %t, %d were counted", asked, got)
	}
}

// An interface of type ipvlan has the address of its device. A frame from this address to
// itself does not leave the device: the node receives it.
func TestNode_OwnPodFramesAsNode_NotAccepted(t *testing.T) {
	s := newSegment(t, lab.IPVlan)
	own, this, other := s.pod.Addrs, s.nodes[0].Underlay[:], s.nodes[1].Underlay[:]
	mac := s.nodes[0].Config.UnderlayMAC
	word := s.next()
	dropped, passing := sentFrames(own, other, this, word)
	inner := wire.Frame{
		EthDst: state.MAC{2, 0, 10, 0, 1, 10},
		EthSrc: state.MAC{2, 0, 10, 0, 1, 20},
		Src:    s.red[20].Addrs[0],
		Dst:    s.red[10].Addrs[0],
		L4:     wire.UDP{Sport: 1, Dport: 2},
	}
	vxlan := slices.Concat([]byte{8, 0, 0, 0}, binary.BigEndian.AppendUint32(nil, lab.VNI1<<8), inner.Bytes())
	dropped["into a VPC"] = plain(other[0], this[0], programs.DefaultTunnelPort, vxlan).Bytes()
	for _, frames := range []map[string][]byte{dropped, passing} {
		for name, frame := range frames {
			before, entered := s.forged("from_tunnel"), bpftest.Counts(t, s.nodes[0].Datapath)["from_tunnel/forwarded_local"]
			s.send(bySocket(0), slices.Concat(mac[:], mac[:], frame[12:]))
			_, forged := dropped[name]
			if forged {
				bpftest.Eventually(t, name+" is dropped", func() bool { return s.forged("from_tunnel") == before+1 })
			}
			// A frame that comes after it and may pass.
			s.reaches(mac)
			if got := s.forged("from_tunnel") - before; (got == 1) != forged {
				t.Errorf("%s: %d were counted", name, got)
			}
			if got := bpftest.Counts(t, s.nodes[0].Datapath)["from_tunnel/forwarded_local"]; got != entered {
				t.Errorf("%s: %d packets entered a VPC", name, got-entered)
			}
		}
	}
}

// reaches sends the pod's own node a frame, and waits for it.
func (s *segment) reaches(mac state.MAC) {
	s.t.Helper()
	word := s.next()
	bpftest.In(s.t, s.nodes[0].NS, func() {
		receiver := packetSocket(s.t, s.nodes[0].Ifindex)
		s.send(bySocket(0), slices.Concat(mac[:], mac[:], []byte{0x88, 0xcc}, word, make([]byte, 40)))
		buf := make([]byte, 1<<16)
		for n := 0; !bytes.Contains(buf[:n], word); {
			var err error
			if n, _, err = unix.Recvfrom(receiver, buf, 0); err != nil {
				s.t.Fatalf("a frame to the node did not arrive: %v", err)
			}
		}
	})
}

// linkOn makes a device on the underlay device of a node.
func linkOn(t *testing.T, n *lab.Node, make func(netlink.LinkAttrs) netlink.Link) (ifindex int) {
	t.Helper()
	bpftest.In(t, n.NS, func() {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = "link", n.Ifindex
		link := make(attrs)
		err := netlink.LinkAdd(link)
		if errors.Is(err, unix.EOPNOTSUPP) {
			t.Skipf("missing feature: devices of type %s", link.Type())
		}
		bpftest.Must(t, err)
		ifindex = bpftest.BringUp(t, n.NS, "link")
	})
	return ifindex
}

// The node itself sends the packets of a VXLAN.
func TestVXLANLink_Pods_SendAnything(t *testing.T) {
	l, _, _ := lab.TwoTenants(t, lab.Veth)
	n, other := l.Nodes[0], l.Nodes[1]
	link := linkOn(t, n, func(attrs netlink.LinkAttrs) netlink.Link {
		return &netlink.Vxlan{
			LinkAttrs: attrs, VxlanId: 7, VtepDevIndex: n.Ifindex, Port: lab.LinkPort,
			SrcAddr: n.Underlay[0].AsSlice(), Group: other.Underlay[0].AsSlice(),
		}
	})
	s := &segment{t: t, nodes: l.Nodes, pod: n.Child(t, lab.Macvlan, link)}
	bpftest.In(t, other.NS, func() { s.receiver = packetSocket(t, other.Ifindex) })
	word := s.next()
	dropped, passing := sentFrames(s.pod.Addrs, n.Underlay[:], other.Underlay[:], word)
	for _, frames := range []map[string][]byte{dropped, passing} {
		for name, frame := range frames {
			if !s.arrives(word, func() { s.send(bySocket(0), frame) }) {
				t.Errorf("%s: it did not arrive", name)
			}
		}
	}
}

// The hosts of a VLAN may have any addresses. The nodes may be in that VLAN too, so the program
// drops the packets that could enter a VPC.
func TestVLANOfNodeDevice_Pods_EnterNoVPC(t *testing.T) {
	l, _, _ := lab.TwoTenants(t, lab.Veth)
	n, other := l.Nodes[0], l.Nodes[1]
	link := linkOn(t, n, func(attrs netlink.LinkAttrs) netlink.Link { return &netlink.Vlan{LinkAttrs: attrs, VlanId: 200} })
	s := &segment{t: t, nodes: l.Nodes, pod: n.Child(t, lab.Macvlan, link)}
	bpftest.In(t, other.NS, func() { s.receiver = packetSocket(t, other.Ifindex) })
	own := s.pod.Addrs[0]
	for name, c := range map[string]struct {
		from    netip.Addr
		port    uint16
		dropped bool
	}{
		"from an address that a node has": {n.Underlay[0], 9999, false},
		"to a VXLAN of the VLAN's":        {own, programs.DefaultTunnelPort, false},
		"from a node into the tunnel":     {n.Underlay[0], programs.DefaultTunnelPort, true},
		"from a node into VXLAN links":    {n.Underlay[0], lab.LinkPort, true},
	} {
		word := s.next()
		came := s.arrives(word, func() { s.send(bySocket(0), plain(c.from, other.Underlay[0], c.port, word).Bytes()) })
		if came == c.dropped {
			t.Errorf("%s: arrived %t", name, came)
		}
	}
}
