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

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// segment is the network of two nodes, with a pod of the first one on it.
type segment struct {
	t        *testing.T
	nodes    [2]*lab.Node
	pod      *lab.Pod
	red      map[int]*lab.Pod
	receiver int // a packet socket of the second node
	sent     uint32
}

func newSegment(t *testing.T, kind lab.ChildKind) *segment {
	t.Helper()
	l, red, _ := lab.TwoTenants(t, lab.Veth)
	s := &segment{t: t, nodes: l.Nodes, red: red, pod: l.Nodes[0].Child(t, kind, l.Nodes[0].Ifindex)}
	bpftest.In(t, l.Nodes[1].NS, func() { s.receiver = packetSocket(t, l.Nodes[1].Ifindex) })
	return s
}

// packetSocket returns a socket that receives all frames of a device.
func packetSocket(t *testing.T, ifindex int) int {
	t.Helper()
	all := bpf.NetworkOrder(unix.ETH_P_ALL)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	bpftest.Must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	bpftest.Must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20))
	bpftest.Must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: ifindex, Protocol: all}))
	limit := unix.NsecToTimeval(bpftest.Patience.Nanoseconds())
	bpftest.Must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit))
	return fd
}

// next is a word that no other packet of the segment has.
func (s *segment) next() []byte {
	s.sent++
	return binary.BigEndian.AppendUint32([]byte("segment!"), s.sent)
}

// forged returns the packets that the first node has dropped as forged so far.
func (s *segment) forged(way string) uint64 {
	s.t.Helper()
	return bpftest.Counts(s.t, s.nodes[0].Datapath)[way+"/forged_node"]
}

// arrives reports whether a packet with the word arrives at the other node before one
// that is sent after it and may pass.
func (s *segment) arrives(word []byte, send func()) bool {
	s.t.Helper()
	send()
	last := s.next()
	s.send(bySocket(0), neitherIP(last))
	buf := make([]byte, 1<<16)
	for came := false; ; {
		n, _, err := unix.Recvfrom(s.receiver, buf, 0)
		if err != nil {
			s.t.Fatalf("the last packet did not arrive: %v", err)
		}
		if bytes.Contains(buf[:n], last) {
			return came
		}
		came = came || bytes.Contains(buf[:n], word)
	}
}

// send sends a frame by a packet socket of the pod.
func (s *segment) send(prepare func(fd int) error, frame []byte) {
	s.t.Helper()
	bpftest.In(s.t, s.pod.NS, func() { sendOn(s.t, s.pod.Peer, prepare, frame) })
}

func sendOn(t *testing.T, ifindex int, prepare func(fd int) error, frame []byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	bpftest.Must(t, err)
	defer unix.Close(fd)
	bpftest.Must(t, prepare(fd))
	kind := bpf.NetworkOrder(uint16(unix.ETH_P_IP))
	err = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: ifindex, Protocol: kind})
	if !errors.Is(err, unix.ENOBUFS) { // it was dropped
		bpftest.Must(t, err)
	}
}

// bySocket prepares a packet socket, which passes the interface's queue or not.
func bySocket(bypass int) func(fd int) error {
	return func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, bypass) }
}

var (
	macChild    = state.MAC{2, 0, 0, 0, 9, 9}
	toEverybody = state.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
)

// plain is a frame of UDP with a word.
func plain(src, dst netip.Addr, port uint16, word []byte) wire.Frame {
	return wire.Frame{EthDst: toEverybody, EthSrc: macChild, Src: src, Dst: dst, L4: wire.UDP{Sport: 40000, Dport: port, Payload: word}}
}

// tagged puts tags before the type of a frame.
func tagged(frame []byte, vids ...byte) []byte {
	var tags []byte
	for _, vid := range vids {
		tags = append(tags, 0x81, 0, 0, vid)
	}
	return slices.Concat(frame[:12], tags, frame[12:])
}

// about is an ICMPv6 message of neighbour discovery about an address.
func about(kind byte, src, target netip.Addr, word []byte) []byte {
	body := slices.Concat([]byte{0x20, 0, 0, 0}, target.AsSlice(), word)
	return wire.Frame{
		EthDst: toEverybody, EthSrc: macChild, Src: src, Dst: wire.IP("ff02::1"), Hops: 255,
		L4: wire.ICMP{V6: true, Type: kind, Body: body},
	}.Bytes()
}

// neitherIP is a frame of another protocol, as long as the shortest on a wire.
func neitherIP(word []byte) []byte {
	return slices.Concat(header(14, map[int]byte{0: 0xff, 12: 0x88, 13: 0xb5}), word, make([]byte, 46-len(word)))
}

func arpOf(sender netip.Addr, word []byte) []byte {
	return append(wire.ARP(toEverybody, macChild, 2, macChild, sender, toEverybody, sender), word...)
}

// sentFrames are frames of a pod with addresses own, on a network with nodes this and
// other, by names; each has the word, and is to be dropped or not.
func sentFrames(own, this, other []netip.Addr, word []byte) (dropped, passing map[string][]byte) {
	const tunnel, open = programs.DefaultTunnelPort, 9999
	option := wire.Extension{Type: 60, Body: make([]byte, 6)}
	with := func(f wire.Frame, change func(*wire.Frame)) []byte {
		change(&f)
		return f.Bytes()
	}
	udp4, udp6 := plain(own[0], other[0], tunnel, word), plain(own[1], other[1], tunnel, word)
	dropped = map[string][]byte{
		"from the pod's node":                plain(this[0], other[0], open, word).Bytes(),
		"from another node":                  plain(other[0], this[0], open, word).Bytes(),
		"over IPv6 from the pod's node":      plain(this[1], other[1], open, word).Bytes(),
		"over IPv6 from another node":        plain(other[1], this[1], open, word).Bytes(),
		"from a node, tagged":                tagged(plain(this[0], other[0], open, word).Bytes(), 7),
		"over IPv6 from a node, tagged":      tagged(plain(this[1], other[1], open, word).Bytes(), 0),
		"from a node, later fragment":        with(plain(this[0], other[0], open, word), func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 4} }),
		"ARP of the pod's node":              arpOf(this[0], word),
		"ARP of another node":                arpOf(other[0], word),
		"ARP of a node, tagged":              tagged(arpOf(other[0], word), 0),
		"an advertisement of its node":       about(136, own[1], this[1], word),
		"an advertisement of another node":   about(136, own[1], other[1], word),
		"a redirect to a node":               about(137, own[1], other[1], word),
		"a solicitation of a node":           about(135, other[1], own[1], word),
		"to the tunnel":                      udp4.Bytes(),
		"to the tunnel over IPv6":            udp6.Bytes(),
		"to VXLAN links":                     plain(own[0], other[0], lab.LinkPort, word).Bytes(),
		"to VXLAN links over IPv6":           plain(own[1], other[1], lab.LinkPort, word).Bytes(),
		"to the tunnel with options":         with(udp4, func(f *wire.Frame) { f.Options = make([]byte, 8) }),
		"to the tunnel, tagged":              tagged(udp4.Bytes(), 7),
		"to the tunnel, tagged twice":        tagged(udp6.Bytes(), 7, 8),
		"with more tags than are read":       tagged(udp4.Bytes(), 7, 8, 9),
		"to the tunnel, first fragment":      with(udp4, func(f *wire.Frame) { f.Fragment = &wire.Fragment{More: true} }),
		"to the tunnel, first IPv6 fragment": with(udp6, func(f *wire.Frame) { f.Fragment = &wire.Fragment{More: true} }),
		"to the tunnel behind IPv6 options":  with(udp6, func(f *wire.Frame) { f.Extensions = []wire.Extension{option, option} }),
		"behind more headers than are read":  with(udp6, func(f *wire.Frame) { f.Extensions = slices.Repeat([]wire.Extension{option}, 7) }),
	}
	passing = map[string][]byte{
		"UDP":                      plain(own[0], other[0], open, word).Bytes(),
		"UDP over IPv6":            plain(own[1], other[1], open, word).Bytes(),
		"UDP from any other host":  plain(wire.IP("192.0.2.77"), other[0], open, word).Bytes(),
		"a later fragment":         with(udp4, func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 4} }),
		"TCP to the tunnel's port": with(udp4, func(f *wire.Frame) { f.L4 = wire.TCP{Sport: 40000, Dport: tunnel, Payload: word} }),
		"ARP":                      arpOf(own[0], word),
		"a solicitation":           about(135, own[1], other[1], word),
		"an advertisement":         about(136, own[1], own[1], word),
		"neither IP nor ARP":       neitherIP(word),
	}
	return dropped, passing
}

func TestAPodOnTheNodesNetworkSendsNothingAsANode(t *testing.T) {
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

// datagram sends a word from an address that the socket only claims to have.
func datagram(t *testing.T, from, to netip.AddrPort, word []byte) {
	t.Helper()
	family, level, transparent := unix.AF_INET, unix.SOL_IP, unix.IP_TRANSPARENT
	if to.Addr().Is6() {
		family, level, transparent = unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	bpftest.Must(t, err)
	defer unix.Close(fd)
	bpftest.Must(t, unix.SetsockoptInt(fd, level, transparent, 1))
	bpftest.Must(t, unix.Bind(fd, sockaddr(from)))
	sendTo(t, fd, to, word)
}

// rawPacket sends an IP packet with the header that it has.
func rawPacket(t *testing.T, packet []byte, to netip.AddrPort) {
	t.Helper()
	family, level, included := unix.AF_INET, unix.SOL_IP, unix.IP_HDRINCL
	if to.Addr().Is6() {
		family, level, included = unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_HDRINCL
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	bpftest.Must(t, err)
	defer unix.Close(fd)
	bpftest.Must(t, unix.SetsockoptInt(fd, level, included, 1))
	sendTo(t, fd, netip.AddrPortFrom(to.Addr(), 0), packet)
}

func sendTo(t *testing.T, fd int, to netip.AddrPort, data []byte) {
	t.Helper()
	err := unix.Sendto(fd, data, 0, sockaddr(to))
	if !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EPERM) { // it was dropped
		bpftest.Must(t, err)
	}
}

// knowsOther gives the pod the Ethernet address of the other node.
func (s *segment) knowsOther() {
	s.t.Helper()
	bpftest.In(s.t, s.pod.NS, func() {
		for _, ip := range s.nodes[1].Underlay {
			bpftest.AddNeighbour(s.t, s.pod.Peer, ip, s.nodes[1].Config.UnderlayMAC)
		}
	})
}

func TestNoIPSocketOfAPodOnTheNodesNetworkSendsAsANode(t *testing.T) {
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

// A pod's namespace has the node's settings at first, so it may forward. What it forwards
// was received, and has no socket.
func TestAPodForwardsNothingToTheNodesNetworkAsANode(t *testing.T) {
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
func TestNoSegmentsOfAPodOnTheNodesNetworkAreSentAsANode(t *testing.T) {
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
func TestAPodOnTheNodesNetworkDoesNotTellThatItIsANode(t *testing.T) {
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
func TestANodeTakesNothingOfItsPodsForANode(t *testing.T) {
	s := newSegment(t, lab.IPVlan)
	own, this, other := s.pod.Addrs, s.nodes[0].Underlay[:], s.nodes[1].Underlay[:]
	mac := s.nodes[0].Config.UnderlayMAC
	word := s.next()
	dropped, passing := sentFrames(own, other, this, word)
	inner := wire.Frame{EthDst: state.MAC{2, 0, 10, 0, 1, 10}, EthSrc: state.MAC{2, 0, 10, 0, 1, 20}, Src: s.red[20].Addrs[0], Dst: s.red[10].Addrs[0], L4: wire.UDP{Sport: 1, Dport: 2}}
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
			// One that comes after it and may pass.
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
func TestPodsOnAVXLANLinkSendAnything(t *testing.T) {
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

// A VLAN is another network, with any addresses. Only what could enter a VPC is dropped,
// should the nodes be in that VLAN too.
func TestPodsOnAVLANOfTheNodesDeviceEnterNoVPC(t *testing.T) {
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
