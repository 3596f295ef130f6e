// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// alike adds services with one backend to the first tenant: a second address, and a second
// port of the first one. It returns all three.
func alike(l *lab.Lab, family int, backend netip.AddrPort) []netip.AddrPort {
	first := wire.IP([]string{world.VIPB, world.VipB6}[family])
	second := wire.IP([]string{"10.96.1.9", "fd96::1:9"}[family])
	list := []netip.AddrPort{netip.AddrPortFrom(first, 53), netip.AddrPortFrom(second, 53), netip.AddrPortFrom(first, 54)}
	for _, n := range l.Nodes {
		for _, at := range list[1:] {
			n.State.Services = append(n.State.Services, state.Service{
				VNI: lab.VNI1, VIP: at.Addr(), Port: at.Port(), Proto: state.ProtoUDP,
				Backends: []state.Backend{{IP: backend.Addr(), Port: backend.Port()}},
			})
		}
	}
	l.Apply()
	return list
}

// asksAll asks each address once before it reads a reply. The server answers in the order of
// answers, which has indexes of asked, and each reply has to come from the address that was
// asked.
func asksAll(t *testing.T, client, server *net.UDPConn, asked []netip.AddrPort, answers []int) {
	t.Helper()
	askers := map[string]netip.AddrPort{}
	for i, to := range asked {
		_, err := client.WriteToUDPAddrPort([]byte{byte(i)}, to)
		bpftest.Must(t, err)
		buf := make([]byte, 64)
		bpftest.Must(t, server.SetDeadline(time.Now().Add(bpftest.Patience)))
		n, asker, err := server.ReadFromUDPAddrPort(buf)
		bpftest.Must(t, err)
		askers[string(buf[:n])] = asker
	}
	for _, i := range answers {
		_, err := server.WriteToUDPAddrPort([]byte{byte(i)}, askers[string([]byte{byte(i)})])
		bpftest.Must(t, err)
	}
	for range answers {
		buf := make([]byte, 64)
		bpftest.Must(t, client.SetDeadline(time.Now().Add(bpftest.Patience)))
		n, from, err := client.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatalf("of %v asked, the answers %v: %v", asked, answers, err)
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		if n != 1 || from != asked[buf[0]] {
			t.Errorf("of %v asked, the answer of %s comes from %s", asked, asked[buf[0]], from)
		}
	}
}

func TestReply_SeveralServices_FromAskedAddress(t *testing.T) {
	lab.OnEveryDevice(t, testReplySeveralServicesFromAskedAddress)
}

func testReplySeveralServicesFromAskedAddress(t *testing.T, device lab.PodDevice) {
	l, red, _ := socketTenantsOn(t, device)
	for family := range 2 {
		backend := netip.AddrPortFrom(red[20].Addrs[family], 8080)
		all := alike(l, family, backend)
		server := serve(t, red[20], backend)
		for _, network := range []string{[]string{"udp4", "udp6"}[family], "udp"} {
			for _, order := range [][]int{{0, 1}, {0, 2}, {2, 1, 0}, {0, 3}, {1, 2, 3, 0}, {2, 3, 1}} {
				addresses := append(slices.Clone(all), backend)
				var asked []netip.AddrPort
				var forward []int
				for i, n := range order {
					asked, forward = append(asked, addresses[n]), append(forward, i)
				}
				backward := slices.Clone(forward)
				slices.Reverse(backward)
				t.Run(fmt.Sprint(network, order), func(t *testing.T) {
					client := unconnected(t, red[10], network)
					// The first datagram has no answer, and must not get the answer to another
					// one.
					asksAll(t, client, server, asked, forward[1:])
					asksAll(t, client, server, asked, forward)
					asksAll(t, client, server, asked, backward)
				})
			}
		}
	}
}

// A socket notes few services, and a reply comes from the address that was asked whatever
// their number is.
func TestSocket_ManyServices_RepliesFromAskedAddress(t *testing.T) {
	l, red, _ := socketTenants(t)
	var asked []netip.AddrPort
	var order []int
	backend := netip.AddrPortFrom(red[20].Addrs[0], 8080)
	for i := range 9 {
		vip := netip.MustParseAddr(fmt.Sprintf("10.96.2.%d", i))
		for _, n := range l.Nodes {
			n.State.Services = append(n.State.Services, state.Service{
				VNI: lab.VNI1, VIP: vip, Port: 53, Proto: state.ProtoUDP, Backends: []state.Backend{{IP: backend.Addr(), Port: backend.Port() + uint16(i/2)}},
			})
		}
		asked, order = append(asked, netip.AddrPortFrom(vip, 53)), append(order, i)
	}
	l.Apply()
	client := unconnected(t, red[10], "udp4")
	for i := range 5 {
		server := serve(t, red[20], netip.AddrPortFrom(backend.Addr(), backend.Port()+uint16(i)))
		some := asked[2*i : min(2*i+2, len(asked))]
		asksAll(t, client, server, some, order[:len(some)])
	}
	first := serve(t, red[20], netip.AddrPortFrom(backend.Addr(), backend.Port()+100))
	replaceBackends(l, asked[0].Addr(), state.ProtoUDP, state.Backend{IP: backend.Addr(), Port: backend.Port() + 100})
	asksAll(t, client, first, asked[:1], order[:1])
}

// A socket that lives long asks Services that come and go. Deleted Services take none of its
// places.
func TestSocket_ServicesDeleted_TakeNoPlace(t *testing.T) {
	l, red, _ := socketTenants(t)
	n := l.Nodes[0]
	always := n.State.Services
	client := unconnected(t, red[10], "udp4")
	for i := range 12 {
		at := netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("10.96.2.%d", i)), 53)
		backend := netip.AddrPortFrom(red[20].Addrs[0], 9000+uint16(i))
		n.State.Services = append(slices.Clone(always), state.Service{
			VNI: lab.VNI1, VIP: at.Addr(), Port: at.Port(), Proto: state.ProtoUDP, Backends: []state.Backend{{IP: backend.Addr(), Port: backend.Port()}},
		})
		l.Apply()
		asksAll(t, client, serve(t, red[20], backend), []netip.AddrPort{at}, []int{0})
	}
	nothingByPackets(t, l)
}

// A pod is in two VPCs with the same ranges, and the Service is in the second VPC. A pod in the
// first VPC has the same address as the backend.
func TestDatagram_AddressInTwoVPCs_ReachesFirst(t *testing.T) {
	l, red, blue := socketTenants(t)
	n := l.Nodes[0]
	for family, network := range []string{"udp4", "udp6"} {
		service := netip.AddrPortFrom(wire.IP([]string{"10.96.2.1", "fd96::2:1"}[family]), 53)
		backend := netip.AddrPortFrom(red[20].Addrs[family], 8080)
		n.State.Services = append(n.State.Services, state.Service{
			VNI: lab.VNI2, VIP: service.Addr(), Port: service.Port(), Proto: state.ProtoUDP, Backends: []state.Backend{{IP: backend.Addr(), Port: backend.Port()}},
		})
		n.State.Namespaces = []state.Namespace{{Cookie: cookieOf(t, red[10].NS), Memberships: []state.Membership{
			{VNI: lab.VNI1, Addrs: red[10].Addrs, Ifindex: red[10].Ifindex}, {VNI: lab.VNI2, Addrs: blue[10].Addrs, Ifindex: blue[10].Ifindex},
		}}}
		l.Apply()
		server, client := serve(t, red[20], backend), unconnected(t, red[10], network)
		_, err := client.WriteToUDPAddrPort([]byte("for the Service"), service)
		bpftest.Must(t, err)
		echo(t, server)
		hears(t, client, service)
		asksAll(t, client, server, []netip.AddrPort{backend}, []int{0})
	}
}

// Packets that no socket hook has seen, as a virtual machine sends them.
func TestReply_WithoutSocketHook_FromAskedAddress(t *testing.T) {
	l, red, _ := lab.ScaledTenants(t, lab.Veth)
	for family, network := range []string{"udp4", "udp6"} {
		backend := netip.AddrPortFrom(red[20].Addrs[family], 8080)
		all := alike(l, family, backend)
		server, client := serve(t, red[20], backend), unconnected(t, red[10], network)
		asksAll(t, client, server, all, []int{2, 0, 1})
		asksAll(t, client, server, all, []int{1, 2})
	}
}
