// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/test/waits"
)

// outsideLab is a lab whose first node has a way out:
//
//	node 1 --- router --- host
//
// with a narrow link behind the router, and two pods of two VPCs that have the
// same addresses.
type outsideLab struct {
	*lab
	host        ns.NetNS
	green, grey *labPod
}

// narrowMTU is the MTU of the link to the host, in bytes.
const narrowMTU = 1300

var (
	hostAddrs = []netip.Addr{netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("2001:db8:2::9")}
	wanAddrs  = []netip.Addr{netip.MustParseAddr("198.51.100.254"), netip.MustParseAddr("2001:db8:1::254")}
)

// newOutsideLab starts the first node, with both VPCs adapted and no pod
// attached yet.
func newOutsideLab(t *testing.T, adapt func(*script)) *outsideLab {
	t.Helper()
	l := &outsideLab{lab: newLab(t), host: testnet.New(t)}
	node, router := l.nodes[0], testnet.New(t)
	testnet.Veth(t, node, "wan", []string{"198.51.100.254/24", "2001:db8:1::254/64"}, router, "in", []string{"198.51.100.1/24", "2001:db8:1::1/64"})
	testnet.Veth(t, router, "out", []string{"203.0.113.1/24", "2001:db8:2::1/64"}, l.host, "eth0", []string{"203.0.113.9/24", "2001:db8:2::9/64"})
	defaultRoutes(t, node, "198.51.100.1", "2001:db8:1::1")
	defaultRoutes(t, l.host, "203.0.113.1", "2001:db8:2::1")
	testnet.In(t, router, func() error {
		for _, file := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/"+file, []byte("1"), 0o644); err != nil {
				return err
			}
		}
		return netnstest.OnLink("out", func(link netlink.Link) error { return netlink.LinkSetMTU(link, narrowMTU) })()
	})
	s := node.script
	for vni, name := range map[uint32]string{40: "green", 50: "grey"} {
		row := vpcRow(name, vni, "10.20.0.0/16", "fd20::/48")
		row.EgressMasquerade = true
		s.VPCs = append(s.VPCs, row)
		s.Subnets = append(s.Subnets, subnetRow(name, name, "10.20.1.0/24", "10.20.1.1", "fd20:0:0:1::/64", "fd20:0:0:1::1"))
		l.addPod(t, &s, 0, name, name, name, false, "10.20.1.10/24", "fd20:0:0:1::10/64")
	}
	l.green, l.grey = l.pods["green"], l.pods["grey"]
	if adapt != nil {
		adapt(&s)
	}
	node.script = s
	node.start(t)
	return l
}

func (s *script) vpc(name string) *store.VPC {
	for i := range s.VPCs {
		if s.VPCs[i].Name == name {
			return &s.VPCs[i]
		}
	}
	return nil
}

func (s *script) pod(name string) *store.Pod {
	for i := range s.Pods {
		if s.Pods[i].Name == name {
			return &s.Pods[i]
		}
	}
	return nil
}

func (l *outsideLab) attach(t *testing.T) {
	t.Helper()
	for _, pod := range []*labPod{l.green, l.grey} {
		if err := l.cni(t, "ADD", pod); err != nil {
			t.Fatal(err)
		}
	}
}

func defaultRoutes(t *testing.T, space ns.NetNS, gateways ...string) {
	t.Helper()
	testnet.In(t, space, func() error {
		for _, gateway := range gateways {
			if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// echoPort is the port where the host sends back all data.
const echoPort = 7000

// echo sends the data that the host receives back, until the test ends or it is closed, by UDP and
// by TCP.
func (l *outsideLab) echo(t *testing.T) (closeUDP func()) {
	t.Helper()
	var packets net.PacketConn
	var listener net.Listener
	testnet.In(t, l.host, func() (err error) {
		at := fmt.Sprintf(":%d", echoPort)
		if packets, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", at); err != nil {
			return err
		}
		listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", at)
		return err
	})
	t.Cleanup(func() { packets.Close(); listener.Close() })
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, peer, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(buffer[:n], peer)
		}
	}()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return func() { packets.Close() }
}

// dial connects a pod to an address, from one certain port if it is not 0.
func (p *labPod) dial(t *testing.T, network string, from uint16, to netip.AddrPort) (net.Conn, error) {
	t.Helper()
	dialer := net.Dialer{Timeout: patience}
	if from != 0 {
		own := netip.AddrPortFrom(p.ip(ipfamily.Of(to.Addr())), from)
		dialer.LocalAddr = net.UDPAddrFromAddrPort(own)
		if network == "tcp" {
			dialer.LocalAddr = net.TCPAddrFromAddrPort(own)
		}
	}
	var conn net.Conn
	err := p.Do(func(ns.NetNS) (err error) {
		conn, err = dialer.Dial(network, to.String())
		return err
	})
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// mustDial fails the test without a connection.
func (p *labPod) mustDial(t *testing.T, network string, from uint16, to netip.AddrPort) net.Conn {
	t.Helper()
	conn, err := p.dial(t, network, from, to)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return conn
}

// says sends a text and expects it back.
func says(conn net.Conn, text string) error {
	if err := conn.SetDeadline(time.Now().Add(waits.Limit(20 * time.Second))); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		return fmt.Errorf("got %q for %q, %w", got, text, err)
	}
	return nil
}

// option reads a number of a connected UDP socket.
func option(t *testing.T, conn net.Conn, level, name int) int {
	t.Helper()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var value int
	var failure error
	err = raw.Control(func(fd uintptr) { value, failure = unix.GetsockoptInt(int(fd), level, name) })
	if err := errors.Join(err, failure); err != nil {
		t.Fatal(err)
	}
	return value
}

func pathMTU(t *testing.T, conn net.Conn, family ipfamily.Family) int {
	t.Helper()
	if family == ipfamily.IPv4 {
		return option(t, conn, unix.IPPROTO_IP, unix.IP_MTU)
	}
	return option(t, conn, unix.IPPROTO_IPV6, unix.IPV6_MTU)
}

func TestEgress_PodsShareAddressAndPort_BothServed(t *testing.T) {
	t.Parallel()
	l := newOutsideLab(t, nil)
	l.attach(t)
	for _, addr := range hostAddrs {
		t.Run(addr.String(), func(t *testing.T) {
			closeUDP := l.echo(t)
			peer := netip.AddrPortFrom(addr, echoPort)
			for _, network := range []string{"udp", "tcp"} {
				green, grey := l.green.mustDial(t, network, 40000, peer), l.grey.mustDial(t, network, 40000, peer)
				for range 3 {
					if err := errors.Join(says(green, "green "+network), says(grey, "grey! "+network)); err != nil {
						t.Fatalf("%s: %v", network, err)
					}
				}
			}
			t.Run("path MTU", func(t *testing.T) { l.learnsPathMTU(t, addr) })
			t.Run("port unreachable", func(t *testing.T) {
				green, grey := l.green.mustDial(t, "udp", 40001, peer), l.grey.mustDial(t, "udp", 40001, peer)
				if err := errors.Join(says(green, "green"), says(grey, "grey")); err != nil {
					t.Fatal(err)
				}
				closeUDP()
				if err := refusal(green); !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("the pod that sends is told %v", err)
				}
				if got := option(t, grey, unix.SOL_SOCKET, unix.SO_ERROR); got != 0 {
					t.Errorf("the other pod is told: %v", unix.Errno(got))
				}
				if err := refusal(grey); !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("the other pod is told %v when it sends", err)
				}
			})
		})
	}
}

// refusal sends and returns the socket's error.
func refusal(conn net.Conn) error {
	if _, err := io.WriteString(conn, "anybody there?"); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 16))
	return err
}

// learnsPathMTU lets each pod in turn send packets that do not fit, and checks that only the sender
// learns the path MTU. Both pods have the same tuple towards this peer.
func (l *outsideLab) learnsPathMTU(t *testing.T, addr netip.Addr) {
	peer := netip.AddrPortFrom(addr, echoPort)
	green, grey := l.green.mustDial(t, "udp", 40002, peer), l.grey.mustDial(t, "udp", 40002, peer)
	if err := errors.Join(says(green, "green"), says(grey, "grey")); err != nil {
		t.Fatal(err)
	}
	wide := pathMTU(t, grey, ipfamily.Of(addr))
	if wide <= narrowMTU {
		t.Fatalf("the path MTU is %d before anything was sent", wide)
	}
	for _, conn := range []net.Conn{green, grey} {
		if got := pathMTU(t, grey, ipfamily.Of(addr)); got != wide {
			t.Errorf("a pod that has sent nothing has a path MTU of %d, had %d", got, wide)
		}
		eventually(t, "the pod that sends learns the path's MTU", func() error {
			// The test is about a lost datagram; the socket's error reports it.
			_, _ = conn.Write(make([]byte, narrowMTU))
			if got := pathMTU(t, conn, ipfamily.Of(addr)); got != narrowMTU {
				return fmt.Errorf("it is %d", got)
			}
			return nil
		})
		if err := says(conn, strings.Repeat("x", 1000)); err != nil && !errors.Is(err, unix.EMSGSIZE) {
			t.Errorf("what fits: %v", err)
		}
	}
}

func TestVPCEgress_Lists_OpenAndClose(t *testing.T) {
	t.Parallel()
	l := newOutsideLab(t, func(s *script) {
		s.vpc("green").EgressDeny = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/28")}
	})
	l.attach(t)
	l.echo(t)
	peer := netip.AddrPortFrom(hostAddrs[0], echoPort)
	if _, err := l.green.dial(t, "tcp", 0, peer); err == nil {
		t.Error("a denied destination was reached")
	}
	lasting := l.grey.mustDial(t, "tcp", 0, peer)
	if err := says(lasting, "before"); err != nil {
		t.Fatal(err)
	}
	change := func(allow ...string) {
		s := l.nodes[0].script
		grey := s.vpc("grey")
		grey.EgressAllow = nil
		for _, text := range allow {
			grey.EgressAllow = append(grey.EgressAllow, netip.MustParsePrefix(text))
		}
		l.nodes[0].say(t, s)
	}
	change("198.51.100.0/24")
	eventually(t, "the list closes the way", func() error {
		if _, err := l.grey.dial(t, "tcp", 0, peer); err == nil {
			return errors.New("a destination that is not listed was reached")
		}
		return nil
	})
	if err := lasting.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(lasting, "after"); err == nil {
		if n, err := lasting.Read(make([]byte, 16)); err == nil {
			t.Errorf("a connection from before went on: %d bytes", n)
		}
	}
	change("203.0.113.9/32")
	eventually(t, "the list opens the way", func() error {
		conn, err := l.grey.dial(t, "tcp", 0, peer)
		if err != nil {
			return err
		}
		return says(conn, "now")
	})
}

// packets sums up the packets of a datapath's counters whose labels have all of
// these.
func (m *machine) packets(t *testing.T, labels ...string) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(m.get(t, "/metrics")) {
		has := func(label string) bool { return strings.Contains(line, label) }
		if !strings.HasPrefix(line, "alioth_datapath_packets_total{") || slices.ContainsFunc(labels, func(l string) bool { return !has(l) }) {
			continue
		}
		var number float64
		if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &number); err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		sum += int(number)
	}
	return sum
}

func TestPodDatagram_TunnelPort_NotTakenAsTunnel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(t)
	sender, receiver, pod := l.nodes[1], l.nodes[0], l.pods["d1"] // of the default VPC, which alone may reach nodes
	testnet.In(t, sender, func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader("table ip other { chain nat { type nat hook prerouting priority -150; udp dport 5000 dnat to 192.0.2.1:4789; }; }")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
	vxlan := append([]byte{8, 0, 0, 0, 0, 0, 20, 0}, make([]byte, 100)...)
	before := receiver.packets(t, `direction="from_tunnel"`)
	for _, c := range []struct {
		name    string
		port    uint16
		payload []byte
		refused func() bool
	}{
		{"to the port itself", 4789, vxlan, func() bool { return sender.packets(t, `reason="egress_tunnel_port"`) >= 1 }},
		{"in fragments", 4789, append(vxlan, make([]byte, 3000)...), func() bool {
			// The first shows its port, and without it none of the others goes.
			return sender.packets(t, `reason="egress_tunnel_port"`) >= 2 && sender.packets(t, `reason="egress_fragment"`) >= 2
		}},
		{"by somebody else's translation", 5000, vxlan, func() bool {
			return strings.Contains(sender.get(t, "/metrics"), `alioth_filter_dropped_packets_total{reason="tunnel_port"} 1`)
		}},
	} {
		conn := pod.mustDial(t, "udp", 0, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), c.port))
		if _, err := conn.Write(c.payload); err != nil {
			t.Fatal(err)
		}
		eventually(t, c.name, func() error {
			if !c.refused() {
				return errors.New("the packets are not counted as refused")
			}
			return nil
		})
	}
	if after := receiver.packets(t, `direction="from_tunnel"`); after != before {
		t.Errorf("the other node took %d packets for the tunnel's", after-before)
	}
}
