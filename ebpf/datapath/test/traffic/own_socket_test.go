// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// sendFrame sends a frame by a packet socket of the node's. kind is the EtherType that
// the sender gives, whatever the frame has inside.
func sendFrame(t *testing.T, n *lab.Node, ifindex int, kind, mark int, frame []byte) {
	t.Helper()
	bpftest.In(t, n.NS, func() {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		bpftest.Must(t, err)
		defer unix.Close(fd)
		bpftest.Must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark))
		protocol := int(bpf.NetworkOrder(uint16(kind)))
		err = unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: ifindex, Protocol: uint16(protocol)})
		if !errors.Is(err, unix.ENOBUFS) { // it was dropped
			bpftest.Must(t, err)
		}
	})
}

// toTunnelPort returns a frame with a UDP header to the tunnel's port behind other headers.
func toTunnelPort(headers ...[]byte) []byte {
	frame := make([]byte, 12)
	for _, header := range headers {
		frame = append(frame, header...)
	}
	frame = binary.BigEndian.AppendUint16(frame, 40000)
	frame = binary.BigEndian.AppendUint16(frame, programs.DefaultTunnelPort)
	return append(frame, make([]byte, 60)...)
}

func header(length int, fields map[int]byte) []byte {
	b := make([]byte, length)
	for at, value := range fields {
		b[at] = value
	}
	return b
}

func TestNodePacketSocket_TunnelPort_Dropped(t *testing.T) {
	l, _, _ := lab.TwoTenants(t, lab.Veth)
	n := l.Nodes[0]
	ip4, ip6 := []byte{8, 0}, []byte{0x86, 0xdd}
	v4 := header(20, map[int]byte{0: 0x45, 9: unix.IPPROTO_UDP})
	for name, c := range map[string]struct {
		kind    int
		frame   []byte
		dropped bool
	}{
		"IPv4":                 {unix.ETH_P_IP, toTunnelPort(ip4, v4), true},
		"IPv4, said to be ARP": {unix.ETH_P_ARP, toTunnelPort(ip4, v4), true},
		"IPv4 with options":    {unix.ETH_P_IP, toTunnelPort(ip4, header(24, map[int]byte{0: 0x46, 9: unix.IPPROTO_UDP})), true},
		"IPv4 with a tag":      {unix.ETH_P_8021Q, toTunnelPort([]byte{0x81, 0, 0, 0}, ip4, v4), true},
		"IPv6":                 {unix.ETH_P_IPV6, toTunnelPort(ip6, header(40, map[int]byte{0: 0x60, 6: unix.IPPROTO_UDP})), true},
		"IPv6 with options":    {unix.ETH_P_IPV6, toTunnelPort(ip6, header(40, map[int]byte{0: 0x60, 6: 60}), header(8, map[int]byte{0: unix.IPPROTO_UDP})), true},
		"an IPv6 fragment":     {unix.ETH_P_IPV6, toTunnelPort(ip6, header(40, map[int]byte{0: 0x60, 6: 44}), header(8, map[int]byte{0: unix.IPPROTO_UDP})), true},
		"TCP":                  {unix.ETH_P_IP, toTunnelPort(ip4, header(20, map[int]byte{0: 0x45, 9: unix.IPPROTO_TCP})), false},
		"no IP":                {unix.ETH_P_IP, toTunnelPort([]byte{0x88, 0xcc}, v4), false},
	} {
		before := bpftest.Counts(t, n.Datapath)
		sendFrame(t, n, n.Ifindex, c.kind, 0, c.frame)
		if got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))["to_tunnel/tunnel_socket"]; (got == 1) != c.dropped {
			t.Errorf("%s: %d were dropped", name, got)
		}
	}
}

func TestNodeSockets_OtherThanPacket_MayUseTunnel(t *testing.T) {
	l, red, _ := lab.TwoTenants(t, lab.Veth)
	n := l.Nodes[0]
	before := bpftest.Counts(t, n.Datapath)
	// A pod's packet socket, whose packets keep it, and other packets of the pod.
	bpftest.Stream(t, red[10].NS, red[20].NS, red[10].Addrs[0], red[20].Addrs[0])
	if !bpftest.Ping(t, red[10].NS, red[20].Addrs[1], 56, bpftest.Patience) {
		t.Error("no answer to a pod's ping")
	}
	joinVPC(l)
	l.Apply()
	listener := bpftest.Listen(t, red[20].NS, netip.AddrPortFrom(red[20].Addrs[0], 8080))
	conn, err := bpftest.Dial(t, n.NS, netip.AddrPortFrom(red[20].Addrs[0], 8080), 0)
	bpftest.Must(t, err)
	peer, _ := bpftest.Accept(t, listener)
	lab.Talk(t, conn, peer)
	if got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))["to_tunnel/tunnel_socket"]; got != 0 {
		t.Errorf("%d packets were dropped", got)
	}
}

// The test's own mark stands for the mark that the host's rules set.
func TestShadowFlow_SocketNotRedirected_Dropped(t *testing.T) {
	l, inPod, _ := probedPod(t, 8080)
	n := l.Nodes[0]
	shadow, ip := n.State.Interfaces[0].Shadow4, n.State.Interfaces[0].Addrs[0]
	beKubelet(t, n)
	bpftest.In(t, n.NS, func() {
		open := func(to netip.Addr, linger int) (int, error) {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			bpftest.Must(t, err)
			bpftest.Must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(state.MarkOpening)))
			bpftest.Must(t, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: int32(linger)}))
			return fd, unix.Connect(fd, sockaddr(netip.AddrPortFrom(to, 8080)))
		}
		before := bpftest.Counts(t, n.Datapath)
		fd, _ := open(shadow, 1)
		defer unix.Close(fd)
		if got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))["to_pod/shadow_socket"]; got == 0 {
			t.Error("a socket that nobody has led opened a flow to a shadow")
		}
		before = bpftest.Counts(t, n.Datapath)
		fd, _ = open(ip, 1)
		defer unix.Close(fd)
		conn, _ := bpftest.Accept(t, inPod[0])
		conn.Close()
		if got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))["to_pod/shadow_socket"]; got != 0 {
			t.Errorf("%d packets of the kubelet's were dropped", got)
		}
	})
}

func TestNodePacketSocket_Pod_Unreachable(t *testing.T) {
	l, red, _ := lab.TwoTenants(t, lab.Veth)
	n := l.Nodes[0]
	frame := append(header(14, map[int]byte{12: 8}), header(60, map[int]byte{0: 0x45, 9: unix.IPPROTO_UDP})...)
	before := bpftest.Counts(t, n.Datapath)
	for _, mark := range []int{0, 0x0a110d0d} { // the last is the mark of delivered packets
		sendFrame(t, n, red[10].Ifindex, unix.ETH_P_IP, mark, frame)
	}
	if got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))["to_pod/shadow_socket"]; got != 2 {
		t.Errorf("%d frames of two were dropped", got)
	}
}
