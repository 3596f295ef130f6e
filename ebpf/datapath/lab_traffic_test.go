// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// twoTenants fills a lab with two VPCs of one range. Both have a pod .10 on
// node 1 and a pod .20 on node 2; the first also has .11 on node 1.
func twoTenants(t *testing.T, device podDevice) (l *lab, red, blue map[int]*labPod) {
	l = newLab(t)
	l.device = device
	red = map[int]*labPod{
		10: l.addPod(0, labVNI1, 10, state.MAC{2, 0, 10, 0, 1, 10}),
		11: l.addPod(0, labVNI1, 11, state.MAC{2, 0, 10, 0, 1, 11}),
		20: l.addPod(1, labVNI1, 20, state.MAC{2, 0, 10, 0, 1, 20}),
	}
	blue = map[int]*labPod{
		10: l.addPod(0, labVNI2, 10, state.MAC{2, 0, 10, 0, 1, 10}),
		20: l.addPod(1, labVNI2, 20, state.MAC{2, 0, 10, 0, 1, 20}),
	}
	for _, n := range l.nodes {
		for _, vni := range []uint32{labVNI1, labVNI2} {
			n.state.Addresses = append(n.state.Addresses,
				state.Address{VNI: vni, IP: Ip("10.0.1.1"), Kind: state.Gateway}, state.Address{VNI: vni, IP: Ip("fd10:0:0:1::1"), Kind: state.Gateway})
		}
	}
	l.apply()
	return l, red, blue
}

func TestPodsOfAVPCTalkOnOneNodeAndAcrossNodes(t *testing.T) {
	onEveryDevice(t, testPodsOfAVPCTalkOnOneNodeAndAcrossNodes)
}

func testPodsOfAVPCTalkOnOneNodeAndAcrossNodes(t *testing.T, device podDevice) {
	_, red, blue := twoTenants(t, device)
	for _, pair := range []struct {
		name     string
		from, to *labPod
	}{
		{"on one node", red[10], red[11]},
		{"across nodes", red[10], red[20]},
		{"across nodes, back", red[20], red[10]},
		{"the other tenant, across nodes", blue[10], blue[20]},
	} {
		for family, name := range []string{"IPv4", "IPv6"} {
			dst, src := pair.to.addrs[family], pair.from.addrs[family]
			if !ping(t, pair.from.ns, dst, 56, patience) {
				t.Errorf("%s, %s: no answer to a ping", pair.name, name)
			}
			if !ping(t, pair.from.ns, dst, 8000, patience) {
				t.Errorf("%s, %s: no answer to a fragmented ping", pair.name, name)
			}
			if !datagram(t, pair.from.ns, pair.to.ns, netip.AddrPortFrom(dst, 9000), 1000) {
				t.Errorf("%s, %s: a datagram did not arrive", pair.name, name)
			}
			if !datagram(t, pair.from.ns, pair.to.ns, netip.AddrPortFrom(dst, 9000), 20000) {
				t.Errorf("%s, %s: a fragmented datagram did not arrive", pair.name, name)
			}
			stream(t, pair.from.ns, pair.to.ns, src, dst)
			if _, err := dial(t, pair.from.ns, netip.AddrPortFrom(dst, 1), 0); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("%s, %s: connecting to a closed port gives %v", pair.name, name, err)
			}
		}
	}
}

func TestErrorsCrossAVPC(t *testing.T) { onEveryDevice(t, testErrorsCrossAVPC) }

func testErrorsCrossAVPC(t *testing.T, device podDevice) {
	_, red, _ := twoTenants(t, device)
	for family := range 2 {
		for _, to := range []*labPod{red[11], red[20]} {
			refused := false
			in(t, red[10].ns, func() {
				addr := netip.AddrPortFrom(to.addrs[family], 7)
				fd, err := unix.Socket([]int{unix.AF_INET, unix.AF_INET6}[family], unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Close(fd)
				if err := unix.Connect(fd, sockaddr(addr)); err != nil {
					t.Fatal(err)
				}
				if _, err := unix.Write(fd, []byte("anybody?")); err != nil {
					t.Fatal(err)
				}
				// The error about the closed port wakes the poll.
				poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
				if _, err := unix.Poll(poll, int(patience.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
					t.Fatal(err)
				}
				_, err = unix.Read(fd, make([]byte, 16))
				refused = errors.Is(err, unix.ECONNREFUSED)
			})
			if !refused {
				t.Errorf("no error came back about a closed port of %s", to.addrs[family])
			}
		}
	}
}

func sockaddr(addr netip.AddrPort) unix.Sockaddr {
	if addr.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
}

func TestGatewaysAnswerAndTenantsStayApart(t *testing.T) {
	onEveryDevice(t, testGatewaysAnswerAndTenantsStayApart)
}

func testGatewaysAnswerAndTenantsStayApart(t *testing.T, device podDevice) {
	l, red, blue := twoTenants(t, device)
	for _, p := range []*labPod{red[10], blue[20]} {
		for _, gateway := range []string{"10.0.1.1", "fd10:0:0:1::1"} {
			if !ping(t, p.ns, Ip(gateway), 56, patience) {
				t.Errorf("the gateway %s does not answer", gateway)
			}
		}
	}
	// Only red has .11: blue's packets to it must end with a reason.
	before := counts(t, l.nodes[0].d)
	for family := range 2 {
		if ping(t, blue[10].ns, red[11].addrs[family], 56, shyness) {
			t.Errorf("a pod reached %s of another tenant", red[11].addrs[family])
		}
	}
	if got := added(before, counts(t, l.nodes[0].d))["from_pod/no_endpoint"]; got < 2 {
		t.Errorf("the counter of packets to nobody grew by %d, want at least 2", got)
	}
	// Both tenants listen at one and the same address; each gets its own.
	for name, tenant := range map[string]map[int]*labPod{"red": red, "blue": blue} {
		addr := netip.AddrPortFrom(tenant[20].addrs[0], 8081)
		listener := listen(t, tenant[20].ns, addr)
		conn, err := dial(t, tenant[10].ns, addr, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		peer, _ := accept(t, listener)
		fmt.Fprint(conn, name)
		buf := make([]byte, 16)
		if n, err := peer.Read(buf); err != nil || string(buf[:n]) != name {
			t.Errorf("%s received %q, %v", name, buf[:n], err)
		}
	}
}

func TestSegmentationStaysOffloaded(t *testing.T) { onEveryDevice(t, testSegmentationStaysOffloaded) }

func testSegmentationStaysOffloaded(t *testing.T, device podDevice) {
	l, red, _ := twoTenants(t, device)
	for _, to := range []*labPod{red[11], red[20]} {
		sender, receiver := counts(t, l.nodes[0].d), counts(t, l.nodes[1].d)
		stream(t, red[10].ns, to.ns, red[10].addrs[0], to.addrs[0])
		forwarded := added(sender, counts(t, l.nodes[0].d))
		received := added(receiver, counts(t, l.nodes[1].d))
		// cut into packets of the MTU, the data alone would be this many.
		const cut = transferred / labMTU
		for name, n := range map[string]uint64{
			"from_pod/forwarded_local":    forwarded["from_pod/forwarded_local"],
			"from_pod/forwarded_remote":   forwarded["from_pod/forwarded_remote"],
			"from_tunnel/forwarded_local": received["from_tunnel/forwarded_local"],
		} {
			if n > cut/2 {
				t.Errorf("to %s, %s: %d packets for what %d small ones would carry", to.addrs[0], name, n, cut)
			}
		}
		if forwarded["from_pod/forwarded_local"]+forwarded["from_pod/forwarded_remote"] == 0 {
			t.Errorf("to %s: nothing was counted", to.addrs[0])
		}
	}
}

// packetsOf counts what a node's tunnel device has sent and received.
func (n *labNode) packetsOf(t *testing.T) (sent, received uint64) {
	in(t, n.ns, func() {
		device, err := netlink.LinkByIndex(n.cfg.VXLANIfindex)
		if err != nil {
			t.Fatal(err)
		}
		sent, received = device.Attrs().Statistics.TxPackets, device.Attrs().Statistics.RxPackets
	})
	return sent, received
}

// Node 1 reaches the other over IPv4, and is reached over IPv6.
func TestOverIPv4TheTunnelsDeviceIsSpared(t *testing.T) {
	onEveryDevice(t, testOverIPv4TheTunnelsDeviceIsSpared)
}

func testOverIPv4TheTunnelsDeviceIsSpared(t *testing.T, device podDevice) {
	l, red, _ := twoTenants(t, device)
	families := []int{0}
	if popsIPv6(t) {
		families = append(families, 1)
	}
	for _, family := range families {
		stream(t, red[10].ns, red[20].ns, red[10].addrs[family], red[20].addrs[family])
	}
	if sent, received := l.nodes[0].packetsOf(t); sent != 0 || received == 0 {
		t.Errorf("the device of node 1 sent %d packets and received %d; want none sent, and the other node's received", sent, received)
	}
	if sent, received := l.nodes[1].packetsOf(t); sent == 0 || received != 0 {
		t.Errorf("the device of node 2 sent %d packets and received %d; want its own sent, and none received", sent, received)
	}
}

// joinVPC gives a node an interface of its own in a VPC, as the node's own in
// the default VPC.
func (l *lab) joinVPC(node int, vni uint32, number int, mac state.MAC) (addrs []netip.Addr) {
	t, n := l.t, l.nodes[node]
	in(t, n.ns, func() {
		own := addLink(t, &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "node", MTU: labMTU, HardwareAddr: mac[:]}, PeerName: "nodep",
		})
		peer, err := netlink.LinkByName("nodep")
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(peer); err != nil {
			t.Fatal(err)
		}
		for i, format := range []string{"10.0.1.%d", "fd10:0:0:1::%x"} {
			addrs = append(addrs, Ip(fmt.Sprintf(format, number)))
			addAddr(t, own, host(addrs[i]))
			addRoute(t, &netlink.Route{LinkIndex: own, Dst: ipNet([]netip.Prefix{Px("10.0.0.0/16"), Px("fd10::/48")}[i])})
		}
		n.state.Interfaces = append(n.state.Interfaces, state.Interface{
			Ifindex: peer.Attrs().Index, VNI: vni, Addrs: addrs, MAC: mac, Node: true,
		})
		for _, a := range addrs {
			n.state.Addresses = append(n.state.Addresses, state.Address{VNI: vni, IP: a, Kind: state.Local, Ifindex: peer.Attrs().Index, MAC: mac})
			other := l.nodes[1-node]
			other.state.Addresses = append(other.state.Addresses, state.Address{VNI: vni, IP: a, Kind: state.Remote, Node: n.underlay[0], MAC: mac})
		}
	})
	return addrs
}

func TestANodeAndThePodsOfItsVPCReachEachOther(t *testing.T) {
	onEveryDevice(t, testANodeAndThePodsOfItsVPCReachEachOther)
}

func testANodeAndThePodsOfItsVPCReachEachOther(t *testing.T, device podDevice) {
	l, red, blue := twoTenants(t, device)
	addrs := l.joinVPC(0, labVNI1, 2, state.MAC{2, 0, 10, 0, 1, 2})
	l.apply()
	n := l.nodes[0]
	for family := range 2 {
		for _, p := range []*labPod{red[10], red[20]} {
			if !ping(t, n.ns, p.addrs[family], 56, patience) {
				t.Errorf("the node gets no answer from %s", p.addrs[family])
			}
			if !ping(t, p.ns, addrs[family], 56, patience) {
				t.Errorf("%s gets no answer from the node", p.addrs[family])
			}
			stream(t, n.ns, p.ns, addrs[family], p.addrs[family])
			stream(t, p.ns, n.ns, p.addrs[family], addrs[family])
		}
		if ping(t, blue[10].ns, addrs[family], 56, shyness) {
			t.Errorf("a pod of another VPC reached %s", addrs[family])
		}
	}
}
