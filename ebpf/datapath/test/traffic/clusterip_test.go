// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// lans are the numbers of two networks outside of every VPC, and clusterIPs a Service's.
var (
	lans       = [2]uint32{1 << 24, 1<<31 - 1}
	clusterIPs = [2]string{"10.96.7.7", "fd96::7:7"}
)

// clusterIPLab has two networks with the same addresses and one Service, with a client and a
// backend in each. A pod on the first wire is not a member of the network there.
type clusterIPLab struct {
	*lab.Lab
	clients, backends [2]*lab.Pod
	stranger          *lab.Pod
}

func newClusterIPLab(t *testing.T) *clusterIPLab {
	t.Helper()
	l, _, _ := lab.ScaledTenants(t, lab.Veth)
	c, n := &clusterIPLab{Lab: l}, l.Nodes[0]
	for i, number := range lans {
		pods := behindMacvlan(t, n, fmt.Sprintf("trunk%d", i), 3)
		c.clients[i], c.backends[i] = pods[0], pods[1]
		if i == 0 {
			c.stranger = pods[2]
		}
		n.State.Namespaces = append(n.State.Namespaces, state.Namespace{
			Cookie: cookieOf(t, pods[0].NS), Memberships: []state.Membership{{VNI: number, Addrs: pods[0].Addrs}},
		})
		for family, vip := range clusterIPs {
			for proto, port := range map[uint8]uint16{state.ProtoTCP: 80, state.ProtoUDP: 53} {
				n.State.Services = append(n.State.Services, state.Service{
					VNI: number, VIP: wire.IP(vip), Port: port, Proto: proto, Affinity: time.Hour,
					Backends: []state.Backend{{IP: pods[1].Addrs[family], Port: 8080}},
				})
			}
		}
	}
	l.Apply()
	return c
}

// TestClusterIP_EqualNetworks_LeadsToClientNetwork: the networks have the same addresses, so that
// nothing but the number can tell them apart.
func TestClusterIP_EqualNetworks_LeadsToClientNetwork(t *testing.T) {
	c := newClusterIPLab(t)
	for family, vip := range clusterIPs {
		backend := netip.AddrPortFrom(c.backends[0].Addrs[family], 8080)
		web, dns := netip.AddrPortFrom(wire.IP(vip), 80), netip.AddrPortFrom(wire.IP(vip), 53)
		var listeners [2]net.Listener
		var clients [2]net.Conn
		for i := range lans {
			listeners[i] = bpftest.Listen(t, c.backends[i].NS, backend)
			clients[i] = from(t, c.clients[i], 4001, web)
			if got := clients[i].RemoteAddr().String(); got != web.String() {
				t.Errorf("the client talks to %s, want %s", got, web)
			}
		}
		for i := range lans {
			peer, seen := bpftest.Accept(t, listeners[i])
			if seen != c.clients[i].Addrs[family] {
				t.Errorf("the backend sees %s", seen)
			}
			lab.Talk(t, clients[i], peer)
			server := serve(t, c.backends[i], backend)
			for _, client := range []*net.UDPConn{unconnected(t, c.clients[i], "udp"), connected(t, c.clients[i], dns)} {
				var err error
				if client.RemoteAddr() == nil {
					_, err = client.WriteToUDPAddrPort([]byte("hello"), dns)
				} else {
					_, err = client.Write([]byte("hello"))
				}
				bpftest.Must(t, err)
				echo(t, server)
				hears(t, client, dns)
			}
		}
	}
	nothingByPackets(t, c.Lab)
}

// TestClusterIP_OutsideItsNetwork_Unreachable: neither a pod on the same wire that is not a member
// of the network, nor a pod in a VPC, reaches the ClusterIP.
func TestClusterIP_OutsideItsNetwork_Unreachable(t *testing.T) {
	c := newClusterIPLab(t)
	before := bpftest.Counts(t, c.Nodes[0].Datapath)
	for _, vip := range clusterIPs {
		bpftest.In(t, c.stranger.NS, func() {
			if conn, err := net.Dial("udp", netip.AddrPortFrom(wire.IP(vip), 53).String()); err == nil {
				t.Errorf("the stranger's socket has a route to %s, at %s", vip, conn.RemoteAddr())
			}
		})
	}
	if got := bpftest.Added(before, bpftest.Counts(t, c.Nodes[0].Datapath))["socket/service_rewritten"]; got != 0 {
		t.Errorf("%d sockets were translated", got)
	}
}

// TestClusterIPOutside_BackendsChange_Follows: without a backend the client is refused, and a
// connected socket for datagrams is stale, in the network of the change alone.
func TestClusterIPOutside_BackendsChange_Follows(t *testing.T) {
	c := newClusterIPLab(t)
	n := c.Nodes[0]
	web, dns := netip.AddrPortFrom(wire.IP(clusterIPs[0]), 80), netip.AddrPortFrom(wire.IP(clusterIPs[0]), 53)
	removed := connected(t, c.clients[0], dns)
	connected(t, c.clients[1], dns)
	expectStale(t, n.Datapath, c.clients[:])
	for i, s := range n.State.Services {
		if s.VNI == lans[0] {
			n.State.Services[i].Backends = nil
		}
	}
	c.Apply()
	expectStale(t, n.Datapath, c.clients[:], describe(t, removed, netip.AddrPortFrom(c.backends[0].Addrs[0], 8080)))
	before := bpftest.Counts(t, n.Datapath)
	if _, err := bpftest.Dial(t, c.clients[0].NS, web, 0); err == nil {
		t.Error("a client without backends is connected")
	}
	if got := bpftest.Added(before, bpftest.Counts(t, n.Datapath))["socket/replied_refused"]; got != 1 {
		t.Errorf("%d connects were refused, want 1", got)
	}
	refusesAtSocket(t, n, c.clients[1], wire.IP(clusterIPs[0]), 81, 80)
	listener := bpftest.Listen(t, c.backends[1].NS, netip.AddrPortFrom(c.backends[1].Addrs[0], 8080))
	from(t, c.clients[1], 4002, web)
	bpftest.Accept(t, listener)
}

// TestClusterIP_InNetworkAndVPC_NetworkFirst: a Service whose endpoints are in the network has its
// ClusterIP in its VPC too, without a backend there.
func TestClusterIP_InNetworkAndVPC_NetworkFirst(t *testing.T) {
	c := newClusterIPLab(t)
	n := c.Nodes[0]
	for i, s := range n.State.Services {
		if s.VNI == lans[0] {
			inVPC := s
			inVPC.VNI, inVPC.Backends = lab.VNI1, nil
			n.State.Services = append(n.State.Services, inVPC)
			n.State.Services[i].Affinity = 0
		}
	}
	at := &n.State.Namespaces[0]
	at.Memberships = append(at.Memberships, state.Membership{VNI: lab.VNI1, Addrs: []netip.Addr{wire.IP("10.0.1.77")}})
	c.Apply()
	listener := bpftest.Listen(t, c.backends[0].NS, netip.AddrPortFrom(c.backends[0].Addrs[0], 8080))
	from(t, c.clients[0], 4003, netip.AddrPortFrom(wire.IP(clusterIPs[0]), 80))
	bpftest.Accept(t, listener)
	if _, err := bpftest.Dial(t, c.clients[0].NS, netip.AddrPortFrom(wire.IP(world.VipNone), 80), 0); err == nil {
		t.Error("a Service of the VPC alone is not looked up there")
	}
}
