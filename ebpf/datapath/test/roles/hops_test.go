// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/lab"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// onBoth runs a test over both families of the underlay.
func onBoth(t *testing.T, test func(t *testing.T, family int)) {
	t.Helper()
	for family, name := range []string{"over IPv4", "over IPv6"} {
		t.Run(name, func(t *testing.T) { test(t, family) })
	}
}

// ping sends an echo request to the server's pod, and returns the packets that crossed the
// underlay. Either bouncer is written as B.
func (s *scene) ping(t *testing.T, c tap, to netip.Addr) []string {
	t.Helper()
	c.hops(t)
	if !bpftest.Ping(t, s.a.NS, to, 64, bpftest.Patience/6) {
		s.logCounts(t)
		t.Fatalf("no answer of %s, after %v", to, c.hops(t))
	}
	list := c.hops(t)
	for i, hop := range list {
		for _, b := range []int{bouncer1, bouncer2} {
			hop = strings.ReplaceAll(hop, fmt.Sprintf(">%d ", b), ">B ")
			hop = strings.ReplaceAll(hop, fmt.Sprintf("%d>", b), "B>")
		}
		list[i] = hop
	}
	return list
}

// logCounts logs the counters of all nodes.
func (s *scene) logCounts(t *testing.T) {
	t.Helper()
	for i, n := range s.Nodes {
		t.Logf("node %d: %v", i, bpftest.Counts(t, n.Datapath))
	}
}

func expectHops(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("%s: the packets were %v, want %v", what, got, want)
	}
}

// Ways of a packet from the client's node to the server's, and of its answer, by class.
var (
	missThere, missBack       = []string{"0>B 3", "B>1 4"}, []string{"1>B 3", "B>0 4"}
	dividedThere, dividedBack = []string{"0>4 2", "4>B 3", "B>1 4"}, []string{"1>4 2", "4>B 3", "B>0 4"}
)

func join(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func TestHops_Bouncers_AsDesigned(t *testing.T) {
	onBoth(t, func(t *testing.T, family int) {
		s := newScene(t, family, false)
		c := watch(t)
		for _, to := range s.b.Addrs {
			expectHops(t, "a miss on both sides", s.ping(t, c, to), join(missThere, missBack)...)
			s.cache(t, client, to, server)
			expectHops(t, "a row of the client", s.ping(t, c, to), join([]string{"0>1 0"}, missBack)...)
			s.cache(t, client, to, bouncer1)
			expectHops(t, "a row that leads to a bouncer", s.ping(t, c, to), join([]string{"0>B 0", "B>0 1"}, missThere, missBack)...)
			s.cache(t, client, to, divider)
			expectHops(t, "a row that leads elsewhere", s.ping(t, c, to), join([]string{"0>4 0", "4>0 1"}, missThere, missBack)...)
			expectHops(t, "the row is gone", s.ping(t, c, to), join(missThere, missBack)...)
		}
		s.cache(t, client, s.b.Addrs[0], server)
		s.cache(t, server, s.a.Addrs[0], client)
		expectHops(t, "rows on both sides", s.ping(t, c, s.b.Addrs[0]), "0>1 0", "1>0 0")
	})
}

// Nodes of both releases: the rows of some have been switched. Every packet arrives, over the same
// nodes.
func TestHops_SomeNodesSendIdentities_AsDesigned(t *testing.T) {
	onBoth(t, func(t *testing.T, family int) {
		s := newScene(t, family, true)
		c := watch(t)
		for _, sending := range [][]int{{client, server}, {client}, {server}, {}} {
			s.identify(sending...)
			for _, to := range s.b.Addrs {
				expectHops(t, "a miss on both sides", s.ping(t, c, to), join(dividedThere, dividedBack)...)
				s.cache(t, client, to, divider)
				expectHops(t, "a row that leads elsewhere", s.ping(t, c, to), join([]string{"0>4 0", "4>0 1"}, dividedThere, dividedBack)...)
			}
		}
	})
}

func TestHops_Dividers_AsDesigned(t *testing.T) {
	onBoth(t, func(t *testing.T, family int) {
		s := newScene(t, family, true)
		c := watch(t)
		for _, to := range s.b.Addrs {
			expectHops(t, "a miss on both sides", s.ping(t, c, to), join(dividedThere, dividedBack)...)
			s.cache(t, client, to, bouncer2)
			// The most that a packet is ever sent: five times.
			expectHops(t, "a row that leads elsewhere", s.ping(t, c, to), join([]string{"0>B 0", "B>0 1"}, dividedThere, dividedBack)...)
			s.cache(t, client, to, server)
			expectHops(t, "a row of the client", s.ping(t, c, to), join([]string{"0>1 0"}, dividedBack)...)
		}
	})
}

// A node that has left the VPC returns packets that still go there, and they arrive.
func TestPacket_NodeLeftVPC_ArrivesOverBouncer(t *testing.T) {
	s := newScene(t, 0, false)
	c := watch(t)
	s.Nodes[divider].State = state.State{Nodes: s.Nodes[divider].State.Nodes, Own: s.Nodes[divider].State.Own}
	s.ApplyEach()
	s.cache(t, client, s.b.Addrs[0], divider)
	expectHops(t, "a row that leads to a node without the VPC", s.ping(t, c, s.b.Addrs[0]), join([]string{"0>4 0", "4>0 1"}, missThere, missBack)...)
}

// A stream with segments that NICs cut, over bouncers in both directions.
func TestStream_OverMembers_Arrives(t *testing.T) {
	onBoth(t, func(t *testing.T, family int) {
		for _, divided := range []bool{false, true} {
			s := newScene(t, family, divided)
			for i := range s.b.Addrs {
				bpftest.Stream(t, s.a.NS, s.b.NS, s.a.Addrs[i], s.b.Addrs[i])
			}
			for _, n := range []int{client, server} {
				if counts := bpftest.Counts(t, s.Nodes[n].Datapath); counts["from_pod/forwarded_remote"] != 0 || counts["from_pod/forwarded_role"] == 0 {
					t.Errorf("node %d: counters are %v", n, counts)
				}
			}
		}
	})
}

// Datagrams that the pod's stack cuts, at the usual MTU.
func TestPodFragments_OverMembers_Arrive(t *testing.T) {
	onBoth(t, func(t *testing.T, family int) {
		s := newScene(t, family, true)
		for _, to := range s.b.Addrs {
			if !bpftest.Datagram(t, s.a.NS, s.b.NS, netip.AddrPortFrom(to, 9000), 8000) {
				s.logCounts(t)
				t.Errorf("a datagram in fragments did not reach %s", to)
			}
		}
	})
}

// On a narrow underlay, packets that may be cut go in outer fragments. Over IPv6 the programs make
// these fragments.
func TestOuterFragments_OverMembers_Arrive(t *testing.T) {
	onBoth(t, func(t *testing.T, family int) {
		s := newScene(t, family, true)
		for _, n := range s.Nodes {
			bpftest.In(t, n.NS, func() { bpftest.SetMTU(t, n.Ifindex, 1400) })
		}
		for _, sending := range [][]int{{}, {client}} {
			s.identify(sending...)
			for _, size := range []int{1200, 1400} {
				if !bpftest.DatagramWith(t, s.a.NS, s.b.NS, netip.AddrPortFrom(s.b.Addrs[0], 9000), size, cutInTransit) {
					s.logCounts(t)
					t.Errorf("nodes %v send identities: a datagram of %d bytes did not arrive", sending, size)
				}
			}
		}
		for _, i := range []int{client, divider} {
			if n := bpftest.Counts(t, s.Nodes[i].Datapath)["to_tunnel/forwarded_remote"]; family == 1 && n < 2 {
				t.Errorf("node %d has cut a packet into %d, want 2 at least", i, n)
			}
		}
	})
}

// A Service of the VPC whose backend's row the client's node lacks: the client's node
// translates, members do not know the Service.
func TestService_BackendRowMissing_Reached(t *testing.T) {
	for _, divided := range []bool{false, true} {
		s := newScene(t, 0, divided)
		c := watch(t)
		for family, vip := range []string{world.VIPB, world.VipB6} {
			s.Nodes[client].State.Services = append(s.Nodes[client].State.Services, state.Service{
				VNI: lab.VNI1, VIP: wire.IP(vip), Proto: state.ProtoTCP, Port: 80, Backends: []state.Backend{{IP: s.b.Addrs[family], Port: 8080}},
			})
		}
		s.ApplyEach()
		for family, vip := range []string{world.VIPB, world.VipB6} {
			l := bpftest.Listen(t, s.b.NS, netip.AddrPortFrom(s.b.Addrs[family], 8080))
			conn, err := bpftest.Dial(t, s.a.NS, netip.AddrPortFrom(wire.IP(vip), 80), 0)
			bpftest.Must(t, err)
			peer, from := bpftest.Accept(t, l)
			if from != s.a.Addrs[family] {
				t.Errorf("the backend sees %s, want %s", from, s.a.Addrs[family])
			}
			lab.Talk(t, conn, peer)
			bpftest.Transfer(t, conn, peer)
		}
		for _, hop := range c.hops(t) {
			if strings.HasSuffix(hop, " 0") || strings.HasSuffix(hop, " 1") {
				t.Errorf("a packet went %s, want roles only", hop)
			}
		}
	}
}

// A dead member costs a retry: another slot finds another member.
func TestMember_Dead_AnotherChosen(t *testing.T) {
	s := newScene(t, 0, false)
	setDown(t, bouncer1)
	for port := range uint16(8) {
		at, from := bpftest.UdpPair(t, s.b.NS, s.a.NS, netip.AddrPortFrom(s.b.Addrs[0], 9000+port))
		arrived := make(chan error, 1)
		go func() {
			_, err := at.Read(make([]byte, 16))
			arrived <- err
		}()
		bpftest.Eventually(t, "a retry goes over the other member", func() bool {
			_, err := from.Write([]byte("retry"))
			bpftest.Must(t, err)
			select {
			case err := <-arrived:
				bpftest.Must(t, err)
				return true
			default:
				return false
			}
		})
	}
}
