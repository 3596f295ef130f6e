// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"crypto/rand"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// echoes sends datagrams of so many bytes and expects each back, and in between
// the server to see the client as seen.
func echoes(t *testing.T, server, client *net.UDPConn, seen netip.Addr, size, rounds int) {
	t.Helper()
	buf, data := make([]byte, 1<<16), make([]byte, size)
	for round := range rounds {
		rand.Read(data)
		deadline := time.Now().Add(patience)
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
func TestDatagramsInFragmentsGoOutAndComeBack(t *testing.T) {
	onEveryDevice(t, testDatagramsInFragmentsGoOutAndComeBack)
}

func testDatagramsInFragmentsGoOutAndComeBack(t *testing.T, device podDevice) {
	l, red, _ := twoTenants(t, device)
	n := l.nodes[0]
	vip := netip.AddrPortFrom(Ip("10.96.0.10"), 53)
	n.state.Closed = l.closedRanges()
	n.state.Services = []state.Service{{VIP: vip.Addr(), Port: vip.Port(), Proto: state.ProtoUDP, Backends: []state.Backend{{IP: outsideAddrs[0], Port: 5353}}}}
	l.apply()
	// So that no answer over IPv6 has to be told that the pod takes less.
	in(t, l.outside, func() {
		uplink, err := netlink.LinkByName("uplink")
		Must(t, err)
		setMTU(t, uplink.Attrs().Index, labMTU)
	})
	const size, rounds = 4000, 100
	shadows := []netip.Addr{n.state.Interfaces[0].Shadow4, n.state.Interfaces[0].Shadow6}
	for family, dst := range outsideAddrs {
		server, client := udpPair(t, l.outside, red[10].ns, netip.AddrPortFrom(dst, 9000))
		echoes(t, server, client, shadows[family], size, rounds)
	}
	server, _ := udpPair(t, l.outside, l.outside, netip.AddrPortFrom(outsideAddrs[0], 5353))
	var client *net.UDPConn
	in(t, red[10].ns, func() {
		var err error
		// It takes answers of the service's address alone.
		if client, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(vip)); err != nil {
			t.Fatal(err)
		}
	})
	defer client.Close()
	echoes(t, server, client, shadows[0], size, rounds)
	if got := counts(t, n.d)["from_pod/egress_fragment"]; got != 0 {
		t.Errorf("%d fragments were refused", got)
	}
}
