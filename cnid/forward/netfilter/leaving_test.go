// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

// listener sees what reaches a host of the rig.
type listener int

// capture listens to all that reaches a host.
func capture(t *testing.T, at ns.NetNS) listener {
	t.Helper()
	var fd int
	testnet.In(t, at, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL&0xff<<8
		// Without a protocol, which bind sets: the frames of all devices would come until then.
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index})
	})
	t.Cleanup(func() { unix.Close(fd) })
	return listener(fd)
}

// ends returns source and destination of each packet that has come since.
func (l listener) ends() (list [][2]netip.Addr) {
	b := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(int(l), b, 0)
		if err != nil {
			return list
		}
		switch {
		case n >= 20 && b[0]>>4 == 4:
			list = append(list, [2]netip.Addr{netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))})
		case n >= 40 && b[0]>>4 == 6:
			list = append(list, [2]netip.Addr{netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))})
		}
	}
}

// none checks that no packet with a shadow address has come.
func (l listener) none(t *testing.T) {
	t.Helper()
	for _, ends := range l.ends() {
		for _, shadow := range testState().Shadows {
			if shadow.Contains(ends[0]) || shadow.Contains(ends[1]) {
				t.Errorf("a packet from %v to %v has left the node", ends[0], ends[1])
			}
		}
	}
}

// tcpHeader is a segment of no connection, whose checksum is right.
func tcpHeader(src, dst netip.Addr, flags byte) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b, 1000)
	binary.BigEndian.PutUint16(b[2:], 2000)
	b[12], b[13] = 5<<4, flags
	var sum uint32
	for _, part := range [][]byte{src.AsSlice(), dst.AsSlice(), b, {0, unix.IPPROTO_TCP, 0, 20}} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[16:], ^uint16(sum))
	return b
}

// sendIP sends what follows the IP header, from the pod.
func (r rig) sendIP(t *testing.T, src, dst string, protocol int, payload []byte) {
	t.Helper()
	from, to := netip.MustParseAddr(src), netip.MustParseAddr(dst)
	testnet.In(t, r.pod, func() error {
		var at, toward unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte(from.AsSlice()[:4])}, &unix.SockaddrInet4{Addr: [4]byte(to.AsSlice()[:4])}
		family := unix.AF_INET
		if to.Is6() {
			at, toward, family = &unix.SockaddrInet6{Addr: from.As16()}, &unix.SockaddrInet6{Addr: to.As16()}, unix.AF_INET6
		}
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return errors.Join(unix.Bind(fd, at), unix.Sendto(fd, payload, 0, toward))
	})
}

func TestEgress_ConntrackInvalidPacket_Dropped(t *testing.T) {
	const egress, node, shared = 0x20000000, 0x30000000, 0x10000000
	const pod4, pod6, out4, out6 = "169.254.64.5", "fd41:6c69:6f74:6801::5", "192.0.2.9", "2001:db8::9"
	segment := func(src, dst string, flags byte) []byte {
		return tcpHeader(netip.MustParseAddr(src), netip.MustParseAddr(dst), flags)
	}
	// An error about nothing: a quote of zeros.
	unreachable := []byte{3, 3, 0xfc, 0xfc, 31: 0}
	r := newRig(t, 0)
	for _, c := range []struct {
		name     string
		mark     uint32
		src, dst string
		protocol int
		payload  []byte
	}{
		{"RST of no flow", egress, pod4, out4, unix.IPPROTO_TCP, segment(pod4, out4, 0x04)},
		{"RST of no flow, IPv6", egress, pod6, out6, unix.IPPROTO_TCP, segment(pod6, out6, 0x04)},
		{"SYN and FIN", egress, pod4, out4, unix.IPPROTO_TCP, segment(pod4, out4, 0x03)},
		{"a wrong checksum", node, pod4, out4, unix.IPPROTO_TCP, slices.Concat(segment(pod4, out4, 0x02)[:16], make([]byte, 4))},
		{"UDP that is longer than its packet", egress, pod4, out4, unix.IPPROTO_UDP, []byte{3, 232, 7, 208, 0, 200, 0, 0}},
		{"an error about nothing", egress, pod4, out4, unix.IPPROTO_ICMP, unreachable},
		{"RST of no flow, to the default VPC", shared, pod4, "10.244.0.9", unix.IPPROTO_TCP, segment(pod4, "10.244.0.9", 0x04)},
		{"RST of no flow, to the node", node, pod4, "192.0.2.1", unix.IPPROTO_TCP, segment(pod4, "192.0.2.1", 0x04)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.reset(t, c.mark, testState())
			outside, backend := capture(t, r.outside), capture(t, r.backend)
			r.sendIP(t, c.src, c.dst, c.protocol, c.payload)
			r.wantCounter(t, ReasonInvalid)
			outside.none(t)
			backend.none(t)
		})
	}
}

// untracked stands in for another program's rule that exempts packets from conntrack.
func (r rig) untracked(t *testing.T) {
	t.Helper()
	testnet.In(t, r.node, func() error {
		conn := &nftables.Conn{}
		other := conn.AddTable(&nftables.Table{Name: "fast", Family: nftables.TableFamilyINet})
		for name, hook := range map[string]*nftables.ChainHook{"in": nftables.ChainHookPrerouting, "out": nftables.ChainHookOutput} {
			c := conn.AddChain(&nftables.Chain{
				Name: name, Table: other, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityRaw,
			})
			conn.AddRule(&nftables.Rule{Table: other, Chain: c, Exprs: rule{&expr.Notrack{}}})
		}
		return conn.Flush()
	})
}

func TestEgress_ShadowAddress_NeverLeavesNode(t *testing.T) {
	const egress, shared = 0x20000000, 0x10000000
	r := newRig(t, 0)
	routes(t, r.node, "eth0", "192.0.2.9", "169.254.64.77/32")
	routes(t, r.node, "eth0", "2001:db8::9", "fd41:6c69:6f74:6801::77/128")
	for _, c := range []struct {
		name            string
		mark            uint32
		from            func(rig) ns.NetNS
		source, dialled string
	}{
		{"untracked", egress, atPod, "169.254.64.5", "192.0.2.9"},
		{"untracked, IPv6", egress, atPod, "fd41:6c69:6f74:6801::5", "2001:db8::9"},
		{"untracked, to the default VPC", shared, atPod, "169.254.64.5", "10.244.0.9"},
		{"of the node", egress, atNode, "169.254.64.1", "192.0.2.9"},
		{"of the node, IPv6", egress, atNode, "fd41:6c69:6f74:6801::1", "2001:db8::9"},
		{"to nobody's shadow", egress, atNode, "192.0.2.1", "169.254.64.77"},
		{"to nobody's shadow, IPv6", egress, atNode, "2001:db8::1", "fd41:6c69:6f74:6801::77"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.reset(t, c.mark, testState())
			r.untracked(t)
			outside, backend := capture(t, r.outside), capture(t, r.backend)
			testnet.In(t, c.from(r), func() error {
				conn, err := (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(c.source)}}).Dial("udp", net.JoinHostPort(c.dialled, "9"))
				if err != nil {
					return err
				}
				defer conn.Close()
				// If the packet is dropped at once, the node's own sender gets an error.
				if _, err = conn.Write([]byte("hello")); errors.Is(err, unix.EPERM) {
					return nil
				}
				return err
			})
			r.wantCounter(t, ReasonShadowNotTranslated)
			outside.none(t)
			backend.none(t)
		})
	}
}

// lossy drops a part of all TCP packets that come to the host outside or leave it, and
// has them sent one by one.
func (r rig) lossy(t *testing.T, percent int) {
	t.Helper()
	testnet.In(t, r.outside, func() error {
		const chain = "chain %s { type filter hook %s priority 0; meta l4proto tcp numgen random mod 100 < %d drop; };"
		return testnet.NFT(fmt.Sprintf("table inet lossy { "+chain+" "+chain+" };", "in", "input", percent, "out", "output", percent))
	})
	testnet.In(t, r.pod, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetGSOMaxSegs(link, 1)
	})
}

// Retransmissions, acknowledgements of what has been acknowledged, and whatever else
// a lossy way brings must not be taken for invalid so often that a stream stops.
func TestStream_PacketLoss_Arrives(t *testing.T) {
	r := newRig(t, 0x20000000)
	r.lossy(t, 10)
	var server net.Listener
	testnet.In(t, r.outside, func() (err error) {
		server, err = net.Listen("tcp", "192.0.2.9:0")
		return err
	})
	defer server.Close()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	failed := make(chan error, 1)
	go func() {
		conn, err := server.Accept()
		if err != nil {
			failed <- err
			return
		}
		defer conn.Close()
		_, err = io.Copy(conn, io.LimitReader(conn, int64(len(sent))))
		failed <- err
	}()
	var client net.Conn
	testnet.In(t, r.pod, func() (err error) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("169.254.64.5")}, Timeout: patience}
		client, err = dialer.Dial("tcp", server.Addr().String())
		return err
	})
	defer client.Close()
	if err := client.SetDeadline(time.Now().Add(3 * patience)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = client.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("the stream did not come back as it was sent: %v", err)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if lost := retransmitted(t, client); lost == 0 {
		t.Error("nothing was lost")
	}
}

// retransmitted is how many segments a connection has sent again.
func retransmitted(t *testing.T, conn net.Conn) (segments uint32) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(raw.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			segments = info.Total_retrans
		}
	}), err)
	if err != nil {
		t.Fatal(err)
	}
	return segments
}
