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

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// segment is the network of two nodes, with a pod of the first one on it.
type segment struct {
	t        *testing.T
	nodes    []*lab.Node
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

// next returns a word that no other packet of the segment has.
func (s *segment) next() []byte {
	s.sent++
	return binary.BigEndian.AppendUint32([]byte("segment!"), s.sent)
}

// forged returns the packets that the first node has dropped as forged so far.
func (s *segment) forged(way string) uint64 {
	s.t.Helper()
	return bpftest.Counts(s.t, s.nodes[0].Datapath)[way+"/forged_node"]
}

// arrives reports whether a packet with the word arrives at the other node, before a later packet
// that may pass.
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

// plain returns a frame of UDP with a word.
func plain(src, dst netip.Addr, port uint16, word []byte) wire.Frame {
	return wire.Frame{EthDst: toEverybody, EthSrc: macChild, Src: src, Dst: dst, L4: wire.UDP{Sport: 40000, Dport: port, Payload: word}}
}

// withIdentity is a tunnel packet of a node with an identity, and a word.
func withIdentity(word []byte) wire.Transport {
	source := world.IdentitySource(4711, 0, world.ClassOfDirect)
	header := binary.BigEndian.AppendUint32([]byte{8, 0, 0, 0}, lab.VNI1<<8)
	inner := slices.Concat(header, toEverybody[:], source[:], []byte{0x08, 0x00}, word)
	return wire.UDP{Sport: 50000, Dport: programs.DefaultTunnelPort, Payload: inner}
}

// tagged puts tags before the type of a frame.
func tagged(frame []byte, vids ...byte) []byte {
	var tags []byte
	for _, vid := range vids {
		tags = append(tags, 0x81, 0, 0, vid)
	}
	return slices.Concat(frame[:12], tags, frame[12:])
}

// about returns an ICMPv6 message of neighbour discovery about an address.
func about(kind byte, src, target netip.Addr, word []byte) []byte {
	body := slices.Concat([]byte{0x20, 0, 0, 0}, target.AsSlice(), word)
	return wire.Frame{
		EthDst: toEverybody, EthSrc: macChild, Src: src, Dst: wire.IP("ff02::1"), Hops: 255,
		L4: wire.ICMP{V6: true, Type: kind, Body: body},
	}.Bytes()
}

// neitherIP returns a frame of another protocol, as long as the shortest on a wire.
func neitherIP(word []byte) []byte {
	return slices.Concat(header(14, map[int]byte{0: 0xff, 12: 0x88, 13: 0xb5}), word, make([]byte, 46-len(word)))
}

func arpOf(sender netip.Addr, word []byte) []byte {
	return append(wire.ARP(toEverybody, macChild, 2, macChild, sender, toEverybody, sender), word...)
}

// sentFrames returns frames of a pod with addresses own, on a network with nodes this and
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
		"to the tunnel with an identity":     with(udp4, func(f *wire.Frame) { f.L4 = withIdentity(word) }),
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
