// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"bytes"
	"crypto/rand"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// echoes sends datagrams of size bytes and expects each back, and in between the server to see the
// client as seen.
func echoes(t *testing.T, server, client *net.UDPConn, seen netip.Addr, size, rounds int) {
	t.Helper()
	buf, data := make([]byte, 1<<16), make([]byte, size)
	for round := range rounds {
		rand.Read(data)
		deadline := time.Now().Add(bpftest.Patience)
		_ = server.SetReadDeadline(deadline)
		_ = client.SetReadDeadline(deadline)
		if _, err := client.Write(data); err != nil {
			t.Fatal(err)
		}
		n, from, err := server.ReadFromUDPAddrPort(buf)
		if err != nil || !bytes.Equal(buf[:n], data) || from.Addr().Unmap() != seen {
			t.Fatalf("round %d: %d bytes from %s, %v, want %d from %s", round, n, from, err, size, seen)
		}
		if _, err := server.WriteToUDPAddrPort(buf[:n], from); err != nil {
			t.Fatal(err)
		}
		if n, err = client.Read(buf); err != nil || !bytes.Equal(buf[:n], data) {
			t.Fatalf("round %d: the answer has %d bytes, %v, want %d", round, n, err, size)
		}
	}
}

// More datagrams than an interface may have on their way at once.
func TestEgress_DatagramsInFragments_GoAndComeBack(t *testing.T) {
	lab.OnEveryDevice(t, testEgressDatagramsInFragmentsGoAndComeBack)
}

func testEgressDatagramsInFragmentsGoAndComeBack(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	n := l.Nodes[0]
	vip := netip.AddrPortFrom(wire.IP("10.96.0.10"), 53)
	n.State.Closed = closedRanges()
	n.State.Services = []state.Service{
		{VIP: vip.Addr(), Port: vip.Port(), Proto: state.ProtoUDP, Backends: []state.Backend{{IP: lab.OutsideAddrs[0], Port: 5353}}},
	}
	l.Apply()
	// So that no answer over IPv6 has to be told that the pod takes less.
	bpftest.In(t, l.Outside, func() {
		uplink, err := netlink.LinkByName("uplink")
		bpftest.Must(t, err)
		bpftest.SetMTU(t, uplink.Attrs().Index, bpftest.PodMTU)
	})
	const size, rounds = 4000, 100
	shadows := []netip.Addr{n.State.Interfaces[0].Shadow4, n.State.Interfaces[0].Shadow6}
	for family, dst := range lab.OutsideAddrs {
		server, client := bpftest.UdpPair(t, l.Outside, red[10].NS, netip.AddrPortFrom(dst, 9000))
		echoes(t, server, client, shadows[family], size, rounds)
	}
	server, _ := bpftest.UdpPair(t, l.Outside, l.Outside, netip.AddrPortFrom(lab.OutsideAddrs[0], 5353))
	var client *net.UDPConn
	bpftest.In(t, red[10].NS, func() {
		var err error
		// It takes answers of the service's address alone.
		if client, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(vip)); err != nil {
			t.Fatal(err)
		}
	})
	defer client.Close()
	echoes(t, server, client, shadows[0], size, rounds)
	if got := bpftest.Counts(t, n.Datapath)["from_pod/egress_fragment"]; got != 0 {
		t.Errorf("%d fragments were refused", got)
	}
}
