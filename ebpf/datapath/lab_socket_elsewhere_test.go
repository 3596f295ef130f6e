// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// The node reaches by services of its VPC, and by those that all share, whatever these
// lead to. What nobody serves it reaches as if there were no service.
func TestTheNodeReachesServicesOfItsVPC(t *testing.T) {
	l, red, _ := scaledTenants(t, vethPair)
	n := l.nodes[0]
	addrs := l.joinVPC(0, labVNI1, 2, state.MAC{2, 0, 10, 0, 1, 2})
	n.state.Namespaces = []state.Namespace{{
		Cookie: cookieOf(t, n.ns), Shared: true,
		Memberships: []state.Membership{{VNI: labVNI1, Addrs: addrs, Ifindex: n.state.Interfaces[len(n.state.Interfaces)-1].Ifindex}},
	}}
	inside, outside, own := netip.AddrPortFrom(Ip("10.96.0.10"), 80), netip.AddrPortFrom(Ip("10.96.0.1"), 80), netip.AddrPortFrom(Ip("10.96.1.9"), 80)
	n.state.Services = append(n.state.Services,
		state.Service{VIP: inside.Addr(), Port: 80, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: red[20].addrs[0], Port: 8080}}},
		state.Service{VIP: outside.Addr(), Port: 80, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: outsideAddrs[0], Port: 8080}}},
		state.Service{VIP: Ip("10.96.0.2"), Port: 80, Proto: state.ProtoUDP},
		state.Service{VNI: labVNI1, VIP: own.Addr(), Port: 80, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: outsideAddrs[0], Port: 8080, Outside: true}}})
	l.apply()
	beyond := listen(t, l.outside, netip.AddrPortFrom(outsideAddrs[0], 8080))
	for _, dst := range []netip.AddrPort{own, outside} {
		conn, err := dial(t, n.ns, dst, 0)
		if err != nil {
			t.Fatalf("the node does not reach what is outside by %s: %v", dst, err)
		}
		peer, _ := accept(t, beyond)
		talk(t, conn, peer)
	}
	listener := listen(t, red[20].ns, netip.AddrPortFrom(red[20].addrs[0], 8080))
	for _, dst := range []netip.AddrPort{netip.AddrPortFrom(Ip(vipB), 80), inside} {
		conn, err := dial(t, n.ns, dst, 0)
		if err != nil {
			t.Fatalf("the node does not reach %s: %v", dst, err)
		}
		peer, seen := accept(t, listener)
		if seen != addrs[0] {
			t.Errorf("the backend sees %s, want %s", seen, addrs[0])
		}
		talk(t, conn, peer)
	}
	before := counts(t, n.d)
	in(t, n.ns, func() {
		addRoute(t, &netlink.Route{LinkIndex: n.uplink, Dst: ipNet(Px("10.96.0.0/16"))})
		conn, err := net.Dial("udp", "10.96.0.2:80")
		if err != nil {
			t.Fatalf("connecting to what nobody serves: %v", err)
		}
		conn.Close()
	})
	got := added(before, counts(t, n.d))
	if got["socket/service_rewritten"] != 0 || got["socket/replied_refused"] != 0 {
		t.Errorf("what nobody serves was counted as %v", got)
	}
}

// No program of packets sees what a macvlan interface sends.
func TestAPodBehindMacvlanReachesServices(t *testing.T) {
	l, _, _ := scaledTenants(t, vethPair)
	n := l.nodes[0]
	var pods [2]*labPod
	in(t, n.ns, func() {
		parent := addPair(t, "trunk", "trunk-peer")
		far, err := netlink.LinkByName("trunk-peer")
		Must(t, err)
		Must(t, netlink.LinkSetUp(far)) // carrier
		for i := range pods {
			p := &labPod{ns: newNs(t), addrs: []netip.Addr{Ip(fmt.Sprintf("10.0.1.%d", 50+i)), Ip(fmt.Sprintf("fd10:0:0:1::%x", 0x50+i))}}
			err := netlink.LinkAdd(&netlink.Macvlan{
				LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("mv%d", i), ParentIndex: parent, Namespace: netlink.NsFd(p.ns)},
				Mode:      netlink.MACVLAN_MODE_BRIDGE,
			})
			if errors.Is(err, unix.EOPNOTSUPP) {
				t.Skip("missing feature: macvlan devices")
			}
			Must(t, err)
			in(t, p.ns, func() {
				device, err := netlink.LinkByName(fmt.Sprintf("mv%d", i))
				Must(t, err)
				Must(t, netlink.LinkSetUp(device))
				addAddr(t, device.Attrs().Index, netip.PrefixFrom(p.addrs[0], 24))
				addAddr(t, device.Attrs().Index, netip.PrefixFrom(p.addrs[1], 64))
			})
			pods[i] = p
		}
	})
	n.state.Namespaces = []state.Namespace{{
		Cookie: cookieOf(t, pods[0].ns), Memberships: []state.Membership{{VNI: labVNI1, Addrs: pods[0].addrs}},
	}}
	for family, vip := range []string{vipB, vipB6} {
		backend := state.Backend{IP: pods[1].addrs[family], Port: 8080}
		l.replaceBackends(Ip(vip), state.ProtoTCP, backend)
		l.replaceBackends(Ip(vip), state.ProtoUDP, backend)
		listener := listen(t, pods[1].ns, netip.AddrPortFrom(backend.IP, backend.Port))
		conn, err := dial(t, pods[0].ns, netip.AddrPortFrom(Ip(vip), 80), 0)
		if err != nil {
			t.Fatalf("connect to %s: %v", vip, err)
		}
		peer, seen := accept(t, listener)
		if seen != pods[0].addrs[family] {
			t.Errorf("the backend sees %s", seen)
		}
		talk(t, conn, peer)
		server := serve(t, pods[1], netip.AddrPortFrom(backend.IP, backend.Port))
		dns := netip.AddrPortFrom(Ip(vip), 53)
		client := unconnected(t, pods[0], "udp")
		_, err = client.WriteToUDPAddrPort([]byte("hello"), dns)
		Must(t, err)
		echo(t, server)
		hears(t, client, dns)
		client = connected(t, pods[0], dns)
		_, err = client.Write([]byte("hello"))
		Must(t, err)
		echo(t, server)
		hears(t, client, dns)
	}
	nothingByPackets(t, l)
}
