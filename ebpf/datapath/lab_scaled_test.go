// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// scaledTenants gives both tenants of a lab services at the same addresses: TCP port
// 80 at vipB leads to pod 20 of each, on another node than its clients, and at
// vipSelf to pod 10 itself; there is nobody behind vipNone.
func scaledTenants(t *testing.T, device podDevice) (l *lab, red, blue map[int]*labPod) {
	l, red, blue = twoTenants(t, device)
	for _, n := range l.nodes {
		for _, vni := range []uint32{labVNI1, labVNI2} {
			for family, vips := range [][3]string{{vipB, vipSelf, vipNone}, {vipB6, vipSelf6, vipNone6}} {
				for proto, port := range map[uint8]uint16{state.ProtoTCP: 80, state.ProtoUDP: 53} {
					to := func(vip string, backends ...state.Backend) {
						n.state.Services = append(n.state.Services, state.Service{VNI: vni, VIP: Ip(vip), Proto: proto, Port: port, Backends: backends})
					}
					to(vips[0], state.Backend{IP: red[20].addrs[family], Port: 8080})
					to(vips[1], state.Backend{IP: red[10].addrs[family], Port: 8080})
					to(vips[2])
				}
			}
		}
	}
	l.apply()
	return l, red, blue
}

// from dials from a port of one's choice.
func from(t *testing.T, p *labPod, port uint16, dst netip.AddrPort) net.Conn {
	t.Helper()
	var conn net.Conn
	in(t, p.ns, func() {
		source := p.addrs[0]
		if dst.Addr().Is6() {
			source = p.addrs[1]
		}
		dialer := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, port))}
		var err error
		if conn, err = dialer.Dial("tcp", dst.String()); err != nil {
			t.Fatalf("connect to %s: %v", dst, err)
		}
	})
	t.Cleanup(func() { conn.Close() })
	return conn
}

// talk sends something there and back.
func talk(t *testing.T, client, server net.Conn) {
	t.Helper()
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		Must(t, way[1].SetReadDeadline(time.Now().Add(patience)))
		fmt.Fprint(way[0], "hello")
		buf := make([]byte, 16)
		if n, err := way[1].Read(buf); err != nil || string(buf[:n]) != "hello" {
			t.Fatalf("%q arrived, %v", buf[:n], err)
		}
	}
}

func TestTenantsWithTheSameServicesAndFlowsNeverCross(t *testing.T) {
	onEveryDevice(t, testTenantsWithTheSameServicesAndFlowsNeverCross)
}

func testTenantsWithTheSameServicesAndFlowsNeverCross(t *testing.T, device podDevice) {
	_, red, blue := scaledTenants(t, device)
	for family, vip := range []string{vipB, vipB6} {
		dst := netip.AddrPortFrom(Ip(vip), 80)
		backend := netip.AddrPortFrom(red[20].addrs[family], 8080)
		atRed, atBlue := listen(t, red[20].ns, backend), listen(t, blue[20].ns, backend)
		// One and the same 5-tuple at once, in two VPCs of one node.
		toRed, toBlue := from(t, red[10], 4000, dst), from(t, blue[10], 4000, dst)
		peerRed, clientRed := accept(t, atRed)
		peerBlue, clientBlue := accept(t, atBlue)
		if clientRed != red[10].addrs[family] || clientBlue != blue[10].addrs[family] {
			t.Errorf("the backends see %s and %s", clientRed, clientBlue)
		}
		for name, pair := range map[string][2]net.Conn{"red": {toRed, peerRed}, "blue": {toBlue, peerBlue}} {
			fmt.Fprint(pair[0], name)
			buf := make([]byte, 16)
			n, err := pair[1].Read(buf)
			if err != nil || string(buf[:n]) != name {
				t.Errorf("the backend of %s got %q, %v", name, buf[:n], err)
			}
		}
		transfer(t, toRed, peerRed)
		transfer(t, toBlue, peerBlue)
	}
}

func TestDatagramsReachAServiceAndBack(t *testing.T) {
	onEveryDevice(t, testDatagramsReachAServiceAndBack)
}

func testDatagramsReachAServiceAndBack(t *testing.T, device podDevice) {
	_, red, _ := scaledTenants(t, device)
	for family, vip := range []string{vipB, vipB6} {
		var server, client *net.UDPConn
		in(t, red[20].ns, func() {
			var err error
			server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(red[20].addrs[family], 8080)))
			Must(t, err)
		})
		defer server.Close()
		in(t, red[10].ns, func() {
			var err error
			client, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(Ip(vip), 53)))
			Must(t, err)
		})
		defer client.Close()
		for _, size := range []int{10, 1300, 20000} { // the last one in fragments
			deadline := time.Now().Add(patience)
			Must(t, client.SetDeadline(deadline))
			Must(t, server.SetDeadline(deadline))
			_, err := client.Write(make([]byte, size))
			Must(t, err)
			buf := make([]byte, 1<<16)
			n, asker, err := server.ReadFromUDPAddrPort(buf)
			if err != nil || n != size {
				t.Fatalf("%s: %d bytes of %d arrived: %v", vip, n, size, err)
			}
			_, err = server.WriteToUDPAddrPort(buf[:n], asker)
			Must(t, err)
			if n, err = client.Read(buf); err != nil || n != size {
				t.Fatalf("%s: %d bytes of %d came back: %v", vip, n, size, err)
			}
		}
	}
}

func TestAPodReachesItselfByAServiceWithRealPackets(t *testing.T) {
	onEveryDevice(t, testAPodReachesItselfByAServiceWithRealPackets)
}

func testAPodReachesItselfByAServiceWithRealPackets(t *testing.T, device podDevice) {
	_, red, _ := scaledTenants(t, device)
	for family, vip := range []string{vipSelf, vipSelf6} {
		own := listen(t, red[10].ns, netip.AddrPortFrom(red[10].addrs[family], 8080))
		conn, err := dial(t, red[10].ns, netip.AddrPortFrom(Ip(vip), 80), 0)
		if err != nil {
			t.Fatalf("a pod does not reach itself by %s: %v", vip, err)
		}
		peer, seen := accept(t, own)
		if want := []netip.Addr{Ip("10.0.1.1"), Ip("fd10:0:0:1::1")}[family]; seen != want {
			t.Errorf("the pod sees itself as %s, want %s", seen, want)
		}
		transfer(t, conn, peer)
	}
}

func TestNobodyBehindAServiceIsToldAtOnce(t *testing.T) {
	onEveryDevice(t, testNobodyBehindAServiceIsToldAtOnce)
}

func testNobodyBehindAServiceIsToldAtOnce(t *testing.T, device podDevice) {
	_, red, _ := scaledTenants(t, device)
	for _, vip := range []string{vipNone, vipNone6} {
		if _, err := dial(t, red[10].ns, netip.AddrPortFrom(Ip(vip), 80), 0); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("connecting to %s: %v, want a refusal", vip, err)
		}
		in(t, red[10].ns, func() {
			conn, err := net.Dial("udp", netip.AddrPortFrom(Ip(vip), 53).String())
			Must(t, err)
			defer conn.Close()
			Must(t, conn.SetDeadline(time.Now().Add(patience)))
			_, err = conn.Write([]byte("anybody?"))
			Must(t, err)
			if _, err := conn.Read(make([]byte, 16)); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("a datagram to %s: %v, want a refusal", vip, err)
			}
		})
		if !ping(t, red[10].ns, Ip(vip), 56, patience) {
			t.Errorf("%s does not answer a ping", vip)
		}
	}
}

func TestABackendThatRefusesIsHeardAsTheService(t *testing.T) {
	_, red, _ := scaledTenants(t, vethPair)
	for _, vip := range []string{vipB, vipB6} {
		in(t, red[10].ns, func() {
			conn, err := net.Dial("udp", netip.AddrPortFrom(Ip(vip), 53).String())
			Must(t, err)
			defer conn.Close()
			Must(t, conn.SetDeadline(time.Now().Add(patience)))
			_, err = conn.Write([]byte("anybody?"))
			Must(t, err)
			if _, err := conn.Read(make([]byte, 16)); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("%s, where the backend's port is closed: %v, want a refusal", vip, err)
			}
		})
	}
}

func TestABackendThatIsRemovedKeepsItsConnectionsAndGetsNoOther(t *testing.T) {
	l, red, _ := scaledTenants(t, vethPair)
	dst := netip.AddrPortFrom(Ip(vipB), 80)
	old := listen(t, red[20].ns, netip.AddrPortFrom(red[20].addrs[0], 8080))
	fresh := listen(t, red[11].ns, netip.AddrPortFrom(red[11].addrs[0], 8080))
	conn, err := dial(t, red[10].ns, dst, 0)
	Must(t, err)
	peer, _ := accept(t, old)
	for _, n := range l.nodes {
		for i, s := range n.state.Services {
			if s.VNI == labVNI1 && s.VIP == dst.Addr() {
				n.state.Services[i].Backends = []state.Backend{{IP: red[11].addrs[0], Port: 8080}}
			}
		}
	}
	l.apply()
	talk(t, conn, peer)
	for range 8 {
		next, err := dial(t, red[10].ns, dst, 0)
		Must(t, err)
		served, _ := accept(t, fresh)
		next.Close()
		served.Close()
	}
	talk(t, conn, peer)
}

func TestAServiceSurvivesTheDaemon(t *testing.T) {
	l, red, _ := scaledTenants(t, vethPair)
	listener := listen(t, red[20].ns, netip.AddrPortFrom(red[20].addrs[0], 8080))
	dst := netip.AddrPortFrom(Ip(vipB), 80)
	conn, err := dial(t, red[10].ns, dst, 0)
	Must(t, err)
	peer, _ := accept(t, listener)
	l.nodes[0].restart(t, func() {
		talk(t, conn, peer)
		begins(t, red[10], dst, listener)
	})
	talk(t, conn, peer)
}

// begins makes sure that a connection to a service can be opened.
func begins(t *testing.T, client *labPod, service netip.AddrPort, backend net.Listener) {
	t.Helper()
	conn, err := dial(t, client.ns, service, 0)
	Must(t, err)
	served, _ := accept(t, backend)
	talk(t, conn, served)
}

func TestAnUpgradeToServicesInVPCsKeepsFlows(t *testing.T) {
	l, red, _ := scaledTenants(t, vethPair)
	listener := listen(t, red[20].ns, netip.AddrPortFrom(red[20].addrs[0], 8080))
	conn, err := dial(t, red[10].ns, netip.AddrPortFrom(Ip(vipB), 80), 0)
	Must(t, err)
	peer, _ := accept(t, listener)
	n := l.nodes[0]
	n.restart(t, func() {
		// An earlier version has none of these.
		for _, name := range []string{"alioth_choices", "alioth_maglev", bpf.AffinitiesMap} {
			Must(t, os.Remove(filepath.Join(n.cfg.PinDir, name)))
		}
	})
	talk(t, conn, peer)
}
