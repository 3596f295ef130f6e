// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// inFragments is the size of a datagram that is sent in fragments.
const inFragments = 4000

// talks sends datagrams of some sizes over a connected socket and has a server answer them.
func talks(t *testing.T, client, server *net.UDPConn, sizes ...int) {
	t.Helper()
	for _, size := range sizes {
		data := bytes.Repeat([]byte{7}, size)
		_, err := client.Write(data)
		bpftest.Must(t, err)
		buf := make([]byte, 8000)
		bpftest.Must(t, server.SetDeadline(time.Now().Add(bpftest.Patience)))
		n, asker, err := server.ReadFromUDPAddrPort(buf)
		bpftest.Must(t, err)
		_, err = server.WriteToUDPAddrPort(buf[:n], asker)
		bpftest.Must(t, err)
		bpftest.Must(t, client.SetDeadline(time.Now().Add(bpftest.Patience)))
		n, from, err := client.ReadFromUDPAddrPort(buf)
		bpftest.Must(t, err)
		if want := client.RemoteAddr().String(); !bytes.Equal(buf[:n], data) || netip.AddrPortFrom(from.Addr().Unmap(), from.Port()).String() != want {
			t.Errorf("%d bytes came back from %s, want %d from %s", n, from, size, want)
		}
	}
}

func TestConnectedUDPSocket_BackendGone_MovesToOther(t *testing.T) {
	lab.OnEveryDevice(t, testConnectedUDPSocketBackendGoneMovesToOther)
}

// A backend that is gone may still run, and may still be asked by its own address.
func testConnectedUDPSocketBackendGoneMovesToOther(t *testing.T, device lab.PodDevice) {
	l, red, blue := socketTenantsOn(t, device)
	for family, ip := range []string{world.VIPB, world.VipB6} {
		vip := netip.AddrPortFrom(wire.IP(ip), 53)
		at := func(p *lab.Pod) state.Backend { return state.Backend{IP: p.Addrs[family], Port: 8080} }
		server := func(p *lab.Pod) *net.UDPConn { return serve(t, p, netip.AddrPortFrom(at(p).IP, 8080)) }
		old, here, self, others := server(red[20]), server(red[11]), server(red[10]), server(blue[20])
		client, direct, other := connected(t, red[10], vip), connected(t, red[10], netip.AddrPortFrom(at(red[20]).IP, 8080)), connected(t, blue[10], vip)
		talks(t, client, old, 5, inFragments)
		for _, now := range []struct {
			backends []state.Backend
			server   *net.UDPConn // nil: none
		}{
			{[]state.Backend{at(red[11])}, here},
			{nil, nil},
			{[]state.Backend{at(red[10])}, self},
			{[]state.Backend{at(red[20]), at(red[11])}, old}, // the socket's own is back
			{[]state.Backend{at(red[11])}, here},
		} {
			replaceBackends(l, vip.Addr(), state.ProtoUDP, now.backends...)
			switch now.server {
			case nil:
				refusesEach(t, client)
			case self:
				talks(t, client, self, 5)
			default:
				talks(t, client, now.server, 5, inFragments)
			}
			talks(t, direct, old, 5, inFragments)
			talks(t, other, others, 5)
		}
		expectStale(t, l.Nodes[0].Datapath, []*lab.Pod{red[10], blue[10]})
	}
}

// refusesEach checks that a connected socket is refused again and again.
func refusesEach(t *testing.T, client *net.UDPConn) {
	t.Helper()
	bpftest.Must(t, client.SetDeadline(time.Now().Add(bpftest.Patience)))
	for range 3 {
		_, err := client.Write([]byte("anybody?"))
		bpftest.Must(t, err)
		if _, err := client.Read(make([]byte, 16)); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("without a backend: %v, want a refusal", err)
		}
	}
}

// A socket that has moved on stays with its new backend while the Service has this backend,
// whatever else changes, and through a restart of the daemon.
func TestConnectedUDPSocket_MovedOnce_KeepsNewBackend(t *testing.T) {
	l, red, _ := socketTenants(t)
	vip := netip.AddrPortFrom(wire.IP(world.VIPB), 53)
	client := connected(t, red[10], vip)
	var backends []state.Backend
	servers := map[uint16]*net.UDPConn{}
	for port := uint16(9000); port < 9008; port++ {
		backends = append(backends, state.Backend{IP: red[11].Addrs[0], Port: port})
		servers[port] = serve(t, red[11], netip.AddrPortFrom(red[11].Addrs[0], port))
	}
	reached := func() uint16 {
		t.Helper()
		_, err := client.Write([]byte("hello"))
		bpftest.Must(t, err)
		var at uint16
		bpftest.Eventually(t, "a datagram arrives", func() bool {
			for port, server := range servers {
				bpftest.Must(t, server.SetReadDeadline(time.Now().Add(time.Millisecond)))
				if _, _, err := server.ReadFromUDPAddrPort(make([]byte, 64)); err == nil {
					at = port
				}
			}
			return at != 0
		})
		return at
	}
	replaceBackends(l, vip.Addr(), state.ProtoUDP, backends...)
	first := reached()
	kept := state.Backend{IP: red[11].Addrs[0], Port: first}
	for i := range backends {
		replaceBackends(l, vip.Addr(), state.ProtoUDP, append([]state.Backend{kept}, backends[:i]...)...)
		if got := reached(); got != first {
			t.Fatalf("with %d other backends the socket went on from %d to %d", i, first, got)
		}
	}
	l.Nodes[0].Restart(t, func() {})
	if got := reached(); got != first {
		t.Errorf("after a restart the socket went on from %d to %d", first, got)
	}
	replaceBackends(l, vip.Addr(), state.ProtoUDP, state.Backend{IP: red[11].Addrs[0], Port: 9000 + (first-9000+1)%8})
	if got := reached(); got == first {
		t.Error("the socket stays with a backend that is gone")
	}
}

// Without room for its flow a socket is refused, and not left without a word.
func TestConnectedUDPSocket_NoRoomForFlow_Refused(t *testing.T) {
	l, red, _ := socketTenants(t)
	const room, sockets = 4, 6
	l.Nodes[0].Restart(t, func() { l.Nodes[0].Config.ConnectionsPerInterface = room })
	vip := netip.AddrPortFrom(wire.IP(world.VIPB), 53)
	var clients []*net.UDPConn
	for range sockets {
		clients = append(clients, connected(t, red[10], vip))
	}
	here := serve(t, red[11], netip.AddrPortFrom(red[11].Addrs[0], 8080))
	go func() {
		buf := make([]byte, 64)
		for {
			n, asker, err := here.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = here.WriteToUDPAddrPort(buf[:n], asker)
		}
	}()
	replaceBackends(l, vip.Addr(), state.ProtoUDP, state.Backend{IP: red[11].Addrs[0], Port: 8080})
	refused := 0
	for _, client := range clients {
		_, err := client.Write([]byte("hello"))
		bpftest.Must(t, err)
		bpftest.Must(t, client.SetReadDeadline(time.Now().Add(bpftest.Patience)))
		if _, err := client.Read(make([]byte, 64)); errors.Is(err, unix.ECONNREFUSED) {
			refused++
		} else {
			bpftest.Must(t, err)
		}
	}
	if refused != sockets-room {
		t.Errorf("%d of %d sockets were refused, want %d", refused, sockets, sockets-room)
	}
}
