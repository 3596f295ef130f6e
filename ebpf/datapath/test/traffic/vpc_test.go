// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

func TestVPC_PodsOnOneOrTwoNodes_Connected(t *testing.T) {
	lab.OnEveryDevice(t, testVPCPodsOnOneOrTwoNodesConnected)
}

func testVPCPodsOnOneOrTwoNodesConnected(t *testing.T, device lab.PodDevice) {
	_, red, blue := lab.TwoTenants(t, device)
	for _, pair := range []struct {
		name     string
		from, to *lab.Pod
	}{
		{"on one node", red[10], red[11]},
		{"across nodes", red[10], red[20]},
		{"across nodes, back", red[20], red[10]},
		{"the other tenant, across nodes", blue[10], blue[20]},
	} {
		for family, name := range []string{"IPv4", "IPv6"} {
			dst, src := pair.to.Addrs[family], pair.from.Addrs[family]
			if !bpftest.Ping(t, pair.from.NS, dst, 56, bpftest.Patience) {
				t.Errorf("%s, %s: no answer to a ping", pair.name, name)
			}
			if !bpftest.Ping(t, pair.from.NS, dst, 8000, bpftest.Patience) {
				t.Errorf("%s, %s: no answer to a fragmented ping", pair.name, name)
			}
			if !bpftest.Datagram(t, pair.from.NS, pair.to.NS, netip.AddrPortFrom(dst, 9000), 1000) {
				t.Errorf("%s, %s: a datagram did not arrive", pair.name, name)
			}
			if !bpftest.Datagram(t, pair.from.NS, pair.to.NS, netip.AddrPortFrom(dst, 9000), 20000) {
				t.Errorf("%s, %s: a fragmented datagram did not arrive", pair.name, name)
			}
			bpftest.Stream(t, pair.from.NS, pair.to.NS, src, dst)
			if _, err := bpftest.Dial(t, pair.from.NS, netip.AddrPortFrom(dst, 1), 0); !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("%s, %s: connecting to a closed port gives %v", pair.name, name, err)
			}
		}
	}
}

func TestICMPErrors_WithinVPC_Arrive(t *testing.T) {
	lab.OnEveryDevice(t, testICMPErrorsWithinVPCArrive)
}

func testICMPErrorsWithinVPCArrive(t *testing.T, device lab.PodDevice) {
	_, red, _ := lab.TwoTenants(t, device)
	for family := range 2 {
		for _, to := range []*lab.Pod{red[11], red[20]} {
			refused := false
			bpftest.In(t, red[10].NS, func() { refused = isRefused(t, netip.AddrPortFrom(to.Addrs[family], 7)) })
			if !refused {
				t.Errorf("no error came back about a closed port of %s", to.Addrs[family])
			}
		}
	}
}

// isRefused sends datagrams to a closed port until an error about it comes back, and
// reports whether one did in time.
func isRefused(t *testing.T, addr netip.AddrPort) bool {
	t.Helper()
	family := unix.AF_INET
	if addr.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, sockaddr(addr)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(bpftest.Patience); time.Now().Before(end); {
		_, err := unix.Write(fd, []byte("anybody?"))
		if errors.Is(err, unix.ECONNREFUSED) {
			return true
		}
		if err != nil {
			t.Fatal(err)
		}
		// The error about the closed port wakes the poll.
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, int(time.Second.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
		if _, err = unix.Read(fd, make([]byte, 16)); errors.Is(err, unix.ECONNREFUSED) {
			return true
		}
	}
	return false
}

func sockaddr(addr netip.AddrPort) unix.Sockaddr {
	if addr.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
}

func TestVPC_TwoTenants_GatewayAnswersAndTenantsApart(t *testing.T) {
	lab.OnEveryDevice(t, testVPCTwoTenantsGatewayAnswersAndTenantsApart)
}

func testVPCTwoTenantsGatewayAnswersAndTenantsApart(t *testing.T, device lab.PodDevice) {
	l, red, blue := lab.TwoTenants(t, device)
	for _, p := range []*lab.Pod{red[10], blue[20]} {
		for _, gateway := range []string{"10.0.1.1", "fd10:0:0:1::1"} {
			if !bpftest.Ping(t, p.NS, wire.IP(gateway), 56, bpftest.Patience) {
				t.Errorf("the gateway %s does not answer", gateway)
			}
		}
	}
	// Only red has .11: blue's packets to it must end with a reason.
	before := bpftest.Counts(t, l.Nodes[0].Datapath)
	for family := range 2 {
		if bpftest.Ping(t, blue[10].NS, red[11].Addrs[family], 56, bpftest.Shyness) {
			t.Errorf("a pod reached %s of another tenant", red[11].Addrs[family])
		}
	}
	if got := bpftest.Added(before, bpftest.Counts(t, l.Nodes[0].Datapath))["from_pod/no_endpoint"]; got < 2 {
		t.Errorf("the counter of packets to nobody grew by %d, want at least 2", got)
	}
	// Both tenants listen at one and the same address; each gets its own.
	for name, tenant := range map[string]map[int]*lab.Pod{"red": red, "blue": blue} {
		addr := netip.AddrPortFrom(tenant[20].Addrs[0], 8081)
		listener := bpftest.Listen(t, tenant[20].NS, addr)
		conn, err := bpftest.Dial(t, tenant[10].NS, addr, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		peer, _ := bpftest.Accept(t, listener)
		fmt.Fprint(conn, name)
		buf := make([]byte, 16)
		if n, err := peer.Read(buf); err != nil || string(buf[:n]) != name {
			t.Errorf("%s received %q, %v", name, buf[:n], err)
		}
	}
}

func TestSegmentation_TunnelStream_StaysOffloaded(t *testing.T) {
	lab.OnEveryDevice(t, testSegmentationTunnelStreamStaysOffloaded)
}

func testSegmentationTunnelStreamStaysOffloaded(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	for _, to := range []*lab.Pod{red[11], red[20]} {
		sender, receiver := bpftest.Counts(t, l.Nodes[0].Datapath), bpftest.Counts(t, l.Nodes[1].Datapath)
		bpftest.Stream(t, red[10].NS, to.NS, red[10].Addrs[0], to.Addrs[0])
		forwarded := bpftest.Added(sender, bpftest.Counts(t, l.Nodes[0].Datapath))
		received := bpftest.Added(receiver, bpftest.Counts(t, l.Nodes[1].Datapath))
		// cut into packets of the MTU, the data alone would be this many.
		const cut = bpftest.Transferred / bpftest.PodMTU
		for name, n := range map[string]uint64{
			"from_pod/forwarded_local":    forwarded["from_pod/forwarded_local"],
			"from_pod/forwarded_remote":   forwarded["from_pod/forwarded_remote"],
			"from_tunnel/forwarded_local": received["from_tunnel/forwarded_local"],
		} {
			if n > cut/2 {
				t.Errorf("to %s, %s: %d packets for what %d small ones would carry", to.Addrs[0], name, n, cut)
			}
		}
		if forwarded["from_pod/forwarded_local"]+forwarded["from_pod/forwarded_remote"] == 0 {
			t.Errorf("to %s: nothing was counted", to.Addrs[0])
		}
	}
}

// packetsOf counts the packets that a node's tunnel device has sent and received.
func packetsOf(t *testing.T, n *lab.Node) (sent, received uint64) {
	bpftest.In(t, n.NS, func() {
		device, err := netlink.LinkByIndex(n.Config.VXLANIfindex)
		if err != nil {
			t.Fatal(err)
		}
		sent, received = device.Attrs().Statistics.TxPackets, device.Attrs().Statistics.RxPackets
	})
	return sent, received
}

// Node 1 reaches the other over IPv4, and is reached over IPv6.
func TestTunnel_OverIPv4_DeviceBypassed(t *testing.T) {
	lab.OnEveryDevice(t, testTunnelOverIPv4DeviceBypassed)
}

func testTunnelOverIPv4DeviceBypassed(t *testing.T, device lab.PodDevice) {
	l, red, _ := lab.TwoTenants(t, device)
	families := []int{0}
	if bpftest.PopsIPv6(t) {
		families = append(families, 1)
	}
	for _, family := range families {
		bpftest.Stream(t, red[10].NS, red[20].NS, red[10].Addrs[family], red[20].Addrs[family])
	}
	if sent, received := packetsOf(t, l.Nodes[0]); sent != 0 || received == 0 {
		t.Errorf("the device of node 1 sent %d packets and received %d; want none sent, and the other node's received", sent, received)
	}
	if sent, received := packetsOf(t, l.Nodes[1]); sent == 0 || received != 0 {
		t.Errorf("the device of node 2 sent %d packets and received %d; want its own sent, and none received", sent, received)
	}
}

// joinVPC gives the first node an interface of its own in the first VPC, as a node's own in
// the default VPC.
func joinVPC(l *lab.Lab) (addrs []netip.Addr) {
	t, n, vni, mac := l.T, l.Nodes[0], uint32(lab.VNI1), state.MAC{2, 0, 10, 0, 1, 2}
	bpftest.In(t, n.NS, func() {
		own := bpftest.AddLink(t, &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "node", MTU: bpftest.PodMTU, HardwareAddr: mac[:]}, PeerName: "nodep",
		})
		peer, err := netlink.LinkByName("nodep")
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(peer); err != nil {
			t.Fatal(err)
		}
		for i, ip := range []string{"10.0.1.2", "fd10:0:0:1::2"} {
			addrs = append(addrs, wire.IP(ip))
			bpftest.AddAddr(t, own, bpftest.Host(addrs[i]))
			bpftest.AddRoute(t, &netlink.Route{LinkIndex: own, Dst: bpftest.IPNet([]netip.Prefix{wire.Prefix("10.0.0.0/16"), wire.Prefix("fd10::/48")}[i])})
		}
		n.State.Interfaces = append(n.State.Interfaces, state.Interface{
			Ifindex: peer.Attrs().Index, VNI: vni, Addrs: addrs, MAC: mac, Node: true,
		})
		for _, a := range addrs {
			n.State.Addresses = append(n.State.Addresses, state.Address{VNI: vni, IP: a, Kind: state.Local, Ifindex: peer.Attrs().Index, MAC: mac})
			other := l.Nodes[1]
			other.State.Addresses = append(other.State.Addresses, state.Address{VNI: vni, IP: a, Kind: state.Remote, Node: n.Underlay[0], MAC: mac})
		}
	})
	return addrs
}

func TestNode_PodsOfItsVPC_Connected(t *testing.T) {
	lab.OnEveryDevice(t, testNodePodsOfItsVPCConnected)
}

func testNodePodsOfItsVPCConnected(t *testing.T, device lab.PodDevice) {
	l, red, blue := lab.TwoTenants(t, device)
	addrs := joinVPC(l)
	l.Apply()
	n := l.Nodes[0]
	for family := range 2 {
		for _, p := range []*lab.Pod{red[10], red[20]} {
			if !bpftest.Ping(t, n.NS, p.Addrs[family], 56, bpftest.Patience) {
				t.Errorf("the node gets no answer from %s", p.Addrs[family])
			}
			if !bpftest.Ping(t, p.NS, addrs[family], 56, bpftest.Patience) {
				t.Errorf("%s gets no answer from the node", p.Addrs[family])
			}
			bpftest.Stream(t, n.NS, p.NS, addrs[family], p.Addrs[family])
			bpftest.Stream(t, p.NS, n.NS, p.Addrs[family], addrs[family])
		}
		if bpftest.Ping(t, blue[10].NS, addrs[family], 56, bpftest.Shyness) {
			t.Errorf("a pod of another VPC reached %s", addrs[family])
		}
	}
}
