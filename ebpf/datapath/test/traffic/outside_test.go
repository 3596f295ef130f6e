// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// leadOutside gives both tenants the same services, whose backends are outside.
func leadOutside(l *lab.Lab) {
	for _, n := range l.Nodes {
		n.State.Closed = closedRanges()
		for i, s := range n.State.Services {
			switch s.VIP {
			case wire.IP(world.VIPB):
				n.State.Services[i].Backends = []state.Backend{{IP: lab.OutsideAddrs[0], Port: 8080, Outside: true}}
			case wire.IP(world.VipB6):
				n.State.Services[i].Backends = []state.Backend{{IP: lab.OutsideAddrs[1], Port: 8080, Outside: true}}
			}
		}
	}
	l.Apply()
}

func TestServiceOutside_TranslatedInPackets_Reached(t *testing.T) {
	lab.OnEveryDevice(t, func(t *testing.T, device lab.PodDevice) {
		l, red, blue := lab.ScaledTenants(t, device)
		l.BothOpen = true
		leadOutside(l)
		checkLeadsOutside(t, l, red[10], blue[10])
	})
}

func TestServiceOutside_TranslatedAtSocket_Reached(t *testing.T) {
	l, red, blue := socketTenants(t)
	l.BothOpen = true
	leadOutside(l)
	checkLeadsOutside(t, l, red[10], blue[10])
	nothingByPackets(t, l)
}

// checkLeadsOutside asks the service of both tenants from one and the same address and
// port at once.
func checkLeadsOutside(t *testing.T, l *lab.Lab, red, blue *lab.Pod) {
	t.Helper()
	for family, vip := range []string{world.VIPB, world.VipB6} {
		dst := netip.AddrPortFrom(wire.IP(vip), 80)
		listener := bpftest.Listen(t, l.Outside, netip.AddrPortFrom(lab.OutsideAddrs[family], 8080))
		seen := map[netip.Addr]bool{}
		for _, p := range []*lab.Pod{red, blue} {
			conn := from(t, p, 4000, dst)
			peer, client := bpftest.Accept(t, listener)
			if seen[client] || shadowsOf(l, p)[family] != client {
				t.Errorf("who asks %s is %s outside, want %s", dst, client, shadowsOf(l, p)[family])
			}
			seen[client] = true
			if got := conn.RemoteAddr().String(); got != dst.String() {
				t.Errorf("the client talks to %s, want %s", got, dst)
			}
			lab.Talk(t, conn, peer)
			bpftest.Transfer(t, conn, peer)
		}
		askOutside(t, l, red, netip.AddrPortFrom(wire.IP(vip), 53), netip.AddrPortFrom(lab.OutsideAddrs[family], 8080))
	}
}

// askOutside sends datagrams there and back, the largest in fragments.
func askOutside(t *testing.T, l *lab.Lab, p *lab.Pod, service, backend netip.AddrPort) {
	t.Helper()
	var server, client *net.UDPConn
	var err error
	bpftest.In(t, l.Outside, func() { server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(backend)) })
	bpftest.Must(t, err)
	defer server.Close()
	bpftest.In(t, p.NS, func() { client, err = net.ListenUDP("udp", nil) })
	bpftest.Must(t, err)
	defer client.Close()
	for _, size := range []int{10, 1300, 20000} {
		bpftest.Must(t, client.SetDeadline(time.Now().Add(bpftest.Patience)))
		bpftest.Must(t, server.SetDeadline(time.Now().Add(bpftest.Patience)))
		_, err := client.WriteToUDPAddrPort(make([]byte, size), service)
		bpftest.Must(t, err)
		buf := make([]byte, 1<<16)
		n, asker, err := server.ReadFromUDPAddrPort(buf)
		if err != nil || n != size {
			t.Fatalf("%s: %d bytes of %d arrived: %v", service, n, size, err)
		}
		_, err = server.WriteToUDPAddrPort(buf[:n], asker)
		bpftest.Must(t, err)
		bpftest.Must(t, client.SetReadDeadline(time.Now().Add(bpftest.Shyness)))
		n, by, err := client.ReadFromUDPAddrPort(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) { // over IPv6 the first large answer teaches the server the MTU of its path
			_, err = server.WriteToUDPAddrPort(make([]byte, size), asker)
			bpftest.Must(t, err)
			bpftest.Must(t, client.SetReadDeadline(time.Now().Add(bpftest.Patience)))
			n, by, err = client.ReadFromUDPAddrPort(buf)
		}
		if err != nil || n != size || netip.AddrPortFrom(by.Addr().Unmap(), by.Port()) != service {
			t.Fatalf("%s: %d bytes of %d came back from %s: %v", service, n, size, by, err)
		}
	}
}

func TestServiceOutside_EgressClosed_Unreachable(t *testing.T) {
	l, _, blue := socketTenants(t)
	leadOutside(l)
	before := bpftest.Counts(t, l.Nodes[0].Datapath)
	bpftest.In(t, blue[10].NS, func() {
		dialer := net.Dialer{Timeout: bpftest.Shyness}
		if conn, err := dialer.Dial("tcp", netip.AddrPortFrom(wire.IP(world.VIPB), 80).String()); err == nil {
			conn.Close()
			t.Error("a VPC without egress reached the outside by a service")
		}
	})
	if got := bpftest.Added(before, bpftest.Counts(t, l.Nodes[0].Datapath))["from_pod/egress_closed"]; got == 0 {
		t.Error("the refused packet was not counted")
	}
}

// shadowsOf returns the shadow addresses of a pod of the first node, IPv4 first.
func shadowsOf(l *lab.Lab, p *lab.Pod) []netip.Addr {
	for _, i := range l.Nodes[0].State.Interfaces {
		if i.Ifindex == p.Ifindex {
			return []netip.Addr{i.Shadow4, i.Shadow6}
		}
	}
	return nil
}
