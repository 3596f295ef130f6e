// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// leadOutside gives both tenants the same services, whose backends are outside.
func leadOutside(l *lab) {
	for _, n := range l.nodes {
		n.state.Closed = l.closedRanges()
		for i, s := range n.state.Services {
			switch s.VIP {
			case Ip(vipB):
				n.state.Services[i].Backends = []state.Backend{{IP: outsideAddrs[0], Port: 8080, Outside: true}}
			case Ip(vipB6):
				n.state.Services[i].Backends = []state.Backend{{IP: outsideAddrs[1], Port: 8080, Outside: true}}
			}
		}
	}
	l.apply()
}

func TestServicesLeadOutsideByThePacketDoor(t *testing.T) {
	onEveryDevice(t, func(t *testing.T, device podDevice) {
		l, red, blue := scaledTenants(t, device)
		l.bothOpen = true
		leadOutside(l)
		checkLeadsOutside(t, l, red[10], blue[10])
	})
}

func TestServicesLeadOutsideByTheSocketDoor(t *testing.T) {
	l, red, blue := socketTenants(t)
	l.bothOpen = true
	leadOutside(l)
	checkLeadsOutside(t, l, red[10], blue[10])
	nothingByPackets(t, l)
}

// checkLeadsOutside asks the service of both tenants from one and the same address and
// port at once.
func checkLeadsOutside(t *testing.T, l *lab, red, blue *labPod) {
	t.Helper()
	for family, vip := range []string{vipB, vipB6} {
		dst := netip.AddrPortFrom(Ip(vip), 80)
		listener := listen(t, l.outside, netip.AddrPortFrom(outsideAddrs[family], 8080))
		seen := map[netip.Addr]bool{}
		for _, p := range []*labPod{red, blue} {
			conn := from(t, p, 4000, dst)
			peer, client := accept(t, listener)
			if seen[client] || l.shadowsOf(p)[family] != client {
				t.Errorf("who asks %s is %s outside, want %s", dst, client, l.shadowsOf(p)[family])
			}
			seen[client] = true
			if got := conn.RemoteAddr().String(); got != dst.String() {
				t.Errorf("the client talks to %s, want %s", got, dst)
			}
			talk(t, conn, peer)
			transfer(t, conn, peer)
		}
		askOutside(t, l, red, netip.AddrPortFrom(Ip(vip), 53), netip.AddrPortFrom(outsideAddrs[family], 8080))
	}
}

// askOutside sends datagrams there and back, the largest in fragments.
func askOutside(t *testing.T, l *lab, p *labPod, service, backend netip.AddrPort) {
	t.Helper()
	var server, client *net.UDPConn
	var err error
	in(t, l.outside, func() { server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(backend)) })
	Must(t, err)
	defer server.Close()
	in(t, p.ns, func() { client, err = net.ListenUDP("udp", nil) })
	Must(t, err)
	defer client.Close()
	for _, size := range []int{10, 1300, 20000} {
		Must(t, client.SetDeadline(time.Now().Add(patience)))
		Must(t, server.SetDeadline(time.Now().Add(patience)))
		_, err := client.WriteToUDPAddrPort(make([]byte, size), service)
		Must(t, err)
		buf := make([]byte, 1<<16)
		n, asker, err := server.ReadFromUDPAddrPort(buf)
		if err != nil || n != size {
			t.Fatalf("%s: %d bytes of %d arrived: %v", service, n, size, err)
		}
		_, err = server.WriteToUDPAddrPort(buf[:n], asker)
		Must(t, err)
		Must(t, client.SetReadDeadline(time.Now().Add(shyness)))
		n, by, err := client.ReadFromUDPAddrPort(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) { // over IPv6 the first large answer teaches the server the MTU of its path
			_, err = server.WriteToUDPAddrPort(make([]byte, size), asker)
			Must(t, err)
			Must(t, client.SetReadDeadline(time.Now().Add(patience)))
			n, by, err = client.ReadFromUDPAddrPort(buf)
		}
		if err != nil || n != size || netip.AddrPortFrom(by.Addr().Unmap(), by.Port()) != service {
			t.Fatalf("%s: %d bytes of %d came back from %s: %v", service, n, size, by, err)
		}
	}
}

func TestClosedEgressIsClosedBehindAService(t *testing.T) {
	l, _, blue := socketTenants(t)
	leadOutside(l)
	before := counts(t, l.nodes[0].d)
	in(t, blue[10].ns, func() {
		dialer := net.Dialer{Timeout: shyness}
		if conn, err := dialer.Dial("tcp", netip.AddrPortFrom(Ip(vipB), 80).String()); err == nil {
			conn.Close()
			t.Error("a VPC without egress reached the outside by a service")
		}
	})
	if got := added(before, counts(t, l.nodes[0].d))["from_pod/egress_closed"]; got == 0 {
		t.Error("the refused packet was not counted")
	}
}

// shadowsOf are the shadow addresses of a pod of the first node, IPv4 first.
func (l *lab) shadowsOf(p *labPod) []netip.Addr {
	for _, i := range l.nodes[0].state.Interfaces {
		if i.Ifindex == p.ifindex {
			return []netip.Addr{i.Shadow4, i.Shadow6}
		}
	}
	return nil
}
