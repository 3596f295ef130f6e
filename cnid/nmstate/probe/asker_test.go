// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/test/waits"
)

// link is a host beside a gateway, which has the addresses 192.0.2.1 and 2001:db8::1.
type link struct {
	host, gateway ns.NetNS
}

func newLink(t *testing.T) link {
	t.Helper()
	l := link{testnet.New(t), testnet.New(t)}
	testnet.Veth(t, l.host, "eth0", []string{"192.0.2.7/24", "2001:db8::7/64"}, l.gateway, "eth0", []string{"192.0.2.1/24", "2001:db8::1/64"})
	return l
}

var gatewaysOfLink = []string{"192.0.2.1", "2001:db8::1"}

// passes waits until a question is answered: IPv6 takes part in a network a moment after its
// link is up.
func (l link) passes(t *testing.T, q question) {
	t.Helper()
	p := Asker{Space: l.host}.probe(q)
	waits.Until(t, 20*time.Second, p.Name, func() error { return once(t.Context(), p) })
}

// fails checks that a question is not answered within a moment, and returns why.
func (l link) fails(t *testing.T, q question) string {
	t.Helper()
	p := Asker{Space: l.host}.probe(q)
	err := p.Check(waits.Within(t, 400*time.Millisecond))
	if err == nil {
		t.Errorf("%s is reached", p.Name)
		return ""
	}
	return err.Error()
}

func gatewayOn(ip, device string) question {
	return question{kind: gateway, hop: hop{netip.MustParseAddr(ip), device}}
}

func sizedOn(ip string) question {
	return question{kind: fullSize, hop: hop{netip.MustParseAddr(ip), "eth0"}}
}

func write(t *testing.T, space ns.NetNS, setting, value string) {
	t.Helper()
	testnet.In(t, space, func() error { return os.WriteFile("/proc/sys/net/"+setting, []byte(value), 0) })
}

// deaf lets the gateway answer no echo requests.
func (l link) deaf(t *testing.T) {
	t.Helper()
	write(t, l.gateway, "ipv4/icmp_echo_ignore_all", "1")
	write(t, l.gateway, "ipv6/icmp/echo_ignore_all", "1")
}

// cut lets the gateway take no part in the network; the host's device stays up.
func (l link) cut(t *testing.T) {
	t.Helper()
	testnet.In(t, l.gateway, func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for _, ip := range []string{"192.0.2.1/24", "2001:db8::1/64"} {
			address, err := netlink.ParseAddr(ip)
			if err != nil {
				return err
			}
			if err := netlink.AddrDel(eth0, address); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestGatewayProbe_OtherLink_NotReached(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	for _, ip := range gatewaysOfLink {
		l.passes(t, gatewayOn(ip, "eth0"))
	}
	for _, ip := range []string{"192.0.2.9", "198.51.100.1", "2001:db8::9"} {
		l.fails(t, gatewayOn(ip, "eth0"))
	}
	for _, device := range []string{"lo", "eth9"} {
		l.fails(t, gatewayOn("198.51.100.1", device))
	}
}

func TestGatewayProbe_NoEcho_Reached(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	l.deaf(t)
	for _, ip := range gatewaysOfLink {
		l.passes(t, gatewayOn(ip, "eth0"))
		l.fails(t, sizedOn(ip))
	}
}

// TestGatewayProbe_KernelEntryAlone_NoAnswer: it takes a neighbour for reachable long after it
// was.
func TestGatewayProbe_KernelEntryAlone_NoAnswer(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	for _, ip := range gatewaysOfLink {
		l.passes(t, gatewayOn(ip, "eth0"))
	}
	l.cut(t)
	for _, ip := range gatewaysOfLink {
		l.fails(t, gatewayOn(ip, "eth0"))
	}
}

// TestGatewayProbe_StaleNeighbour_AskedAtOnce: the kernel itself would wait for seconds.
func TestGatewayProbe_StaleNeighbour_AskedAtOnce(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	l.deaf(t)
	for _, ip := range gatewaysOfLink {
		l.passes(t, gatewayOn(ip, "eth0"))
		testnet.In(t, l.host, func() error {
			eth0, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			entry, err := hop{netip.MustParseAddr(ip), "eth0"}.neighbour(eth0)
			if err != nil {
				return err
			}
			entry.State = netlink.NUD_STALE
			return netlink.NeighSet(&entry)
		})
		const before = 4 * time.Second // The kernel begins after five.
		p := Asker{Space: l.host}.probe(gatewayOn(ip, "eth0"))
		if err := p.Check(waits.Within(t, before)); err != nil {
			t.Errorf("%s: %v", ip, err)
		}
	}
}

// TestGatewayProbe_PermanentNeighbour_AskedByEcho and keeps its entry.
func TestGatewayProbe_PermanentNeighbour_AskedByEcho(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	var hardware net.HardwareAddr
	testnet.In(t, l.gateway, func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err == nil {
			hardware = eth0.Attrs().HardwareAddr
		}
		return err
	})
	state := func(ip string) (state int) {
		testnet.In(t, l.host, func() error {
			eth0, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			entry, err := hop{netip.MustParseAddr(ip), "eth0"}.neighbour(eth0)
			state = entry.State
			return err
		})
		return state
	}
	testnet.In(t, l.host, func() error {
		eth0, err := netlink.LinkByName("eth0")
		for _, ip := range gatewaysOfLink {
			if err == nil {
				err = netlink.NeighSet(&netlink.Neigh{LinkIndex: eth0.Attrs().Index, IP: net.ParseIP(ip), HardwareAddr: hardware, State: netlink.NUD_PERMANENT})
			}
		}
		return err
	})
	for _, ip := range gatewaysOfLink {
		l.passes(t, gatewayOn(ip, "eth0"))
	}
	l.deaf(t)
	for _, ip := range gatewaysOfLink {
		l.fails(t, gatewayOn(ip, "eth0"))
		if got := state(ip); got != netlink.NUD_PERMANENT {
			t.Errorf("the entry of %s has the state %#x", ip, got)
		}
	}
}

func TestMTUProbe_NetworkDropsLarge_Found(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	resize := func(mtu int) {
		testnet.In(t, l.host, func() error {
			eth0, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.LinkSetMTU(eth0, mtu)
		})
	}
	for _, ip := range gatewaysOfLink {
		for _, mtu := range []int{1500, 1400} {
			resize(mtu)
			l.passes(t, sizedOn(ip))
		}
		resize(9000)
		if text := l.fails(t, sizedOn(ip)); !strings.Contains(text, "9000 bytes") {
			t.Errorf("%s with an MTU that is too large: %s", ip, text)
		}
		l.passes(t, gatewayOn(ip, "eth0"))
	}
}

func TestTargetProbe_ConnectionOrEcho_Reached(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	var listener net.Listener
	testnet.In(t, l.gateway, func() (err error) {
		listener, err = net.Listen("tcp", "192.0.2.1:6443")
		return err
	})
	ask := func(text string) question {
		one, err := reach.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return question{kind: target, target: one}
	}
	for _, text := range []string{"192.0.2.1:6443", "192.0.2.1", "2001:db8::1"} {
		l.passes(t, ask(text))
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if text := l.fails(t, ask("192.0.2.1:6443")); !strings.Contains(text, "refused") {
		t.Errorf("a closed port: %s", text)
	}
	l.fails(t, ask("192.0.2.9:6443"))
	l.deaf(t)
	for _, ip := range gatewaysOfLink {
		l.fails(t, ask(ip))
	}
}

// serve is a name server at an address of the gateway, which answers with a code.
func (l link) serve(t *testing.T, ip string, code byte) net.PacketConn {
	t.Helper()
	var conn net.PacketConn
	testnet.In(t, l.gateway, func() (err error) {
		conn, err = net.ListenPacket("udp", net.JoinHostPort(ip, dnsPort))
		return err
	})
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, maxAnswer)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			reply := append([]byte{}, buffer[:n]...)
			reply[2], reply[3] = 0x81, 0x80|code // a response
			stranger := append([]byte{^reply[0]}, reply[1:]...)
			_, _ = conn.WriteTo(stranger, from)
			_, _ = conn.WriteTo(reply, from)
		}
	}()
	return conn
}

func TestNameServerProbe_OneOfSeveralAnswers_Reached(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	const ok, failure, none = 0, 2, 3
	alive := question{kind: server, servers: []string{"192.0.2.9", "192.0.2.1", "2001:db8::1"}}
	knows := alive
	knows.kind = names
	l.fails(t, alive)
	four := l.serve(t, "192.0.2.1", failure)
	l.passes(t, alive)
	if text := l.fails(t, knows); !strings.Contains(text, "192.0.2.1 answers") {
		t.Errorf("got %s", text)
	}
	for _, code := range []byte{ok, none} {
		six := l.serve(t, "2001:db8::1", code)
		l.passes(t, alive)
		l.passes(t, knows)
		if err := six.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := four.Close(); err != nil {
		t.Fatal(err)
	}
	l.fails(t, alive)
}

// TestNameServerProbe_QueryLost_SentAgain: the first one of a client is lost.
func TestNameServerProbe_QueryLost_SentAgain(t *testing.T) {
	t.Parallel()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() {
		buffer := make([]byte, maxAnswer)
		for count := 1; ; count++ {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if count > 1 {
				buffer[2] |= 0x80
				_, _ = conn.WriteTo(buffer[:n], from)
			}
		}
	}()
	if _, err := query(waits.Within(t, 20*time.Second), conn.LocalAddr().String()); err != nil {
		t.Error(err)
	}
}
