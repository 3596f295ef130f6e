// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// goes returns a packet from a pod to a pod: of this node, if its Ethernet address is one of a
// pod here, or through the tunnel.
func goes(name string, device int, in wire.Frame, dst state.MAC, out func(*wire.Frame)) world.Case {
	c := world.Case{
		Name: name, Device: device, In: in.Bytes(), Verdict: world.ActRedirect, Counts: world.One("from_pod/forwarded_local"),
		Out: in.With(func(f *wire.Frame) {
			f.EthDst, f.EthSrc = dst, state.VirtualMAC
			if dst == world.MacR {
				f.EthSrc = world.ClassDirect
			}
			out(f)
		}).Bytes(),
	}
	if dst == world.MacR {
		c.Counts = world.One("from_pod/forwarded_remote")
	}
	return c
}

// sees returns the case of a packet that pod B sends to pod A.
func sees(name string, w *world.World, in wire.Frame, out func(*wire.Frame)) world.Case {
	return goes(name, w.PodB, in, world.MacA, out)
}

func TestService_OtherVPC_NotReached(t *testing.T) {
	w := world.NewScaled(t)
	syn, data := wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN}, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagACK, Payload: []byte("x")}
	to := func(dst string, l4 wire.Transport) func(*wire.Frame) {
		return func(f *wire.Frame) { f.Dst, f.L4 = wire.IP(dst), l4 }
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		goes("an opening of red", w.PodA, world.Asks(world.VIPB, syn), world.MacB, to("10.0.1.11", wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagSYN})),
		goes("the same packet of blue", w.Twin, world.Asks(world.VIPB, syn), world.MacR, to("10.0.1.11", wire.TCP{Sport: 1000, Dport: 9090, Flags: wire.FlagSYN})),
		goes(
			"red's data",
			w.PodA,
			world.Asks(world.VIPB, data),
			world.MacB,
			to("10.0.1.11", wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagACK, Payload: []byte("x")}),
		),
		goes(
			"blue's data",
			w.Twin,
			world.Asks(world.VIPB, data),
			world.MacR,
			to("10.0.1.11", wire.TCP{Sport: 1000, Dport: 9090, Flags: wire.FlagACK, Payload: []byte("x")}),
		),
		goes(
			"red's datagram to another node",
			w.PodA,
			world.Asks(world.VIPB, wire.UDP{Sport: 1000, Dport: 53}),
			world.MacR,
			to("10.0.1.20", wire.UDP{Sport: 1000, Dport: 5353}),
		),
		goes("a datagram without a checksum", w.PodA, world.Asks(world.VIPB, wire.UDP{Sport: 1001, Dport: 53, NoChecksum: true}), world.MacR,
			to("10.0.1.20", wire.UDP{Sport: 1001, Dport: 5353, NoChecksum: true})),
		goes("over IPv6", w.PodA, world.Asks(world.VipB6, syn), world.MacB, to("fd10:0:0:1::11", wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagSYN})),
		dropped("a service of red from blue", w.Twin, world.Asks(world.VipSelf, syn).Bytes(), "egress_closed"),
		dropped("data of no connection", w.PodA, world.Asks(world.VIPB, wire.TCP{Sport: 1001, Dport: 80, Flags: wire.FlagACK}).Bytes(), "no_connection"),
		dropped(
			"a fragment of TCP",
			w.PodA,
			world.Asks(world.VIPB, syn).With(func(f *wire.Frame) { f.Fragment = &wire.Fragment{Offset: 0, More: true} }).Bytes(),
			"egress_fragment",
		),
		goes(
			"a service that all share",
			w.PodA,
			world.Asks(world.VIPB, data),
			world.MacB,
			to("10.0.1.11", wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagACK, Payload: []byte("x")}),
		),
		toStack("a shared service", w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), wire.UDP{Sport: 1000, Dport: 5353}
		}, state.MarkShared),
	})
	vip := func(l4 wire.Transport) func(*wire.Frame) {
		return func(f *wire.Frame) { f.Src, f.L4 = wire.IP(world.VIPB), l4 }
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		sees(
			"the answer of a pod of this node",
			w,
			world.Says(wire.TCP{Sport: 8080, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}),
			vip(wire.TCP{Sport: 80, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}),
		),
		sees("what the backend sends from another port", w, world.Says(wire.TCP{Sport: 8081, Dport: 1000, Flags: wire.FlagACK}), world.Unchanged),
		sees("what it sends to another port", w, world.Says(wire.TCP{Sport: 8080, Dport: 1001, Flags: wire.FlagACK}), world.Unchanged),
	})
	arrives := func(name string, device int, in wire.Frame, out func(*wire.Frame)) world.Case {
		return world.Case{
			Name: name, Device: device, In: in.Bytes(), Verdict: world.ActRedirect, Counts: world.One("from_tunnel/forwarded_local"),
			Out: in.With(func(f *wire.Frame) {
				f.EthDst, f.EthSrc = world.MacA, state.VirtualMAC
				out(f)
			}).Bytes(),
		}
	}
	far := func(src string, l4 wire.Transport) wire.Frame {
		return wire.Frame{EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP(src), Dst: wire.IP("10.0.1.10"), L4: l4}
	}
	w.Expect(t, world.Tunnelled(t, w, world.VNIRed, wire.IP("192.0.2.2")), []world.Case{
		arrives("the answer of another node's", w.PodA, far("10.0.1.20", wire.UDP{Sport: 5353, Dport: 1000}), vip(wire.UDP{Sport: 53, Dport: 1000})),
		arrives("a pod with the address of a shared service's backend", w.PodA, far("10.8.1.10", wire.UDP{Sport: 5353, Dport: 1000}), world.Unchanged),
	})
	w.Expect(t, world.Tunnelled(t, w, world.VNIBlue, wire.IP("192.0.2.2")), []world.Case{
		arrives(
			"the answer to blue",
			w.Twin,
			far("10.0.1.11", wire.TCP{Sport: 9090, Dport: 1000, Flags: wire.FlagACK}),
			vip(wire.TCP{Sport: 80, Dport: 1000, Flags: wire.FlagACK}),
		),
		arrives("from red's port to blue", w.Twin, far("10.0.1.11", wire.TCP{Sport: 8080, Dport: 1000, Flags: wire.FlagACK}), world.Unchanged),
	})
}

func TestService_PodIsItsBackend_ReachesItself(t *testing.T) {
	w := world.NewScaled(t)
	for _, c := range []struct {
		vip, self, gateway string
		there, back        func(sport, dport uint16) wire.Transport
	}{
		{
			world.VipSelf, "10.0.1.10", "10.0.1.1",
			func(s, d uint16) wire.Transport { return wire.TCP{Sport: s, Dport: d, Flags: wire.FlagSYN} },
			func(s, d uint16) wire.Transport {
				return wire.TCP{Sport: s, Dport: d, Flags: wire.FlagSYN | wire.FlagACK}
			},
		},
		{
			world.VipSelf6, "fd10:0:0:1::10", "fd10:0:0:1::1",
			func(s, d uint16) wire.Transport { return wire.TCP{Sport: s, Dport: d, Flags: wire.FlagSYN} },
			func(s, d uint16) wire.Transport {
				return wire.TCP{Sport: s, Dport: d, Flags: wire.FlagSYN | wire.FlagACK}
			},
		},
	} {
		answer := world.Asks(c.gateway, c.back(8080, 1000))
		w.Expect(t, w.Objects.AliothFromPod, []world.Case{
			goes("what it asks "+c.vip, w.PodA, world.Asks(c.vip, c.there(1000, 80)), world.MacA, func(f *wire.Frame) {
				f.Src, f.Dst, f.L4 = wire.IP(c.gateway), wire.IP(c.self), c.there(1000, 8080)
			}),
			goes("what it answers", w.PodA, answer, world.MacA, func(f *wire.Frame) {
				f.Src, f.Dst, f.L4 = wire.IP(c.vip), wire.IP(c.self), c.back(80, 1000)
			}),
			dropped("what it says to the gateway beside", w.PodA, world.Asks(c.gateway, c.back(8080, 1001)).Bytes(), "gateway_closed"),
		})
	}
}

func TestService_OtherPodAnswersToGateway_Dropped(t *testing.T) {
	w := world.NewScaled(t)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		goes("an opening of pod A", w.PodA, world.Asks(world.VIPB, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN}), world.MacB, func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP("10.0.1.11"), wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagSYN}
		}),
		dropped(
			"pod B answers pod A's flow to the gateway",
			w.PodB,
			world.Says(wire.TCP{Sport: 8080, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}).
				With(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.1") }).
				Bytes(),
			"gateway_closed",
		),
	})
}

func TestService_Echo_Answered(t *testing.T) {
	w := world.NewScaled(t)
	pong := func(name, vip string, v6 bool, request, reply uint8) world.Case {
		body := []byte("a ping of us")
		in := world.Asks(vip, wire.ICMP{V6: v6, Type: request, Body: body})
		return world.Case{
			Name: name, Device: w.PodA, In: in.Bytes(), Verdict: world.ActRedirect, Counts: world.One("from_pod/replied"),
			Out: in.With(func(f *wire.Frame) {
				f.EthDst, f.EthSrc, f.Src, f.Dst = world.MacA, state.VirtualMAC, in.Dst, in.Src
				f.L4 = wire.ICMP{V6: v6, Type: reply, Body: body}
			}).Bytes(),
		}
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		pong("IPv4", world.VIPB, false, 8, 0), pong("IPv6", world.VipB6, true, 128, 129), pong("without backends", world.VipNone, false, 8, 0),
		dropped("a time stamp", w.PodA, world.Asks(world.VIPB, wire.ICMP{Type: 13, Body: make([]byte, 16)}).Bytes(), "service_icmp"),
	})
}

func TestICMPError_ServiceFlow_FindsFlow(t *testing.T) {
	w := world.NewScaled(t)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		goes("a flow", w.PodA, world.Asks(world.VIPB, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagSYN}), world.MacB, func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP("10.0.1.11"), wire.TCP{Sport: 1000, Dport: 8080, Flags: wire.FlagSYN}
		}),
	})
	about := func(src, dst string, sport, dport uint16) wire.ICMP {
		f := wire.Frame{Src: wire.IP(src), Dst: wire.IP(dst), L4: wire.UDP{Sport: sport, Dport: dport, NoChecksum: true}}
		b := f.Bytes()[14:]
		b[9] = state.ProtoTCP
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], wire.Fold(wire.Sum(0, b[:20])))
		return wire.ICMP{Type: 3, Code: 2, Body: slices.Concat(make([]byte, 4), b)}
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		sees("of the backend, about a question", w, world.Says(about("10.0.1.10", "10.0.1.11", 1000, 8080)), func(f *wire.Frame) {
			f.Src, f.L4 = wire.IP(world.VIPB), about("10.0.1.10", world.VIPB, 1000, 80)
		}),
		sees("of the backend, about another flow", w, world.Says(about("10.0.1.10", "10.0.1.11", 1001, 8080)), world.Unchanged),
		goes("of the client, about an answer", w.PodA, world.Asks(world.VIPB, about(world.VIPB, "10.0.1.10", 80, 1000)), world.MacB, func(f *wire.Frame) {
			f.Dst, f.L4 = wire.IP("10.0.1.11"), about("10.0.1.11", "10.0.1.10", 8080, 1000)
		}),
		dropped("of the client, about no answer", w.PodA, world.Asks(world.VIPB, about(world.VIPB, "10.0.1.10", 80, 1001)).Bytes(), "no_connection"),
		dropped("of the client, about somebody else's", w.PodA, world.Asks(world.VIPB, about("10.0.1.11", "10.0.1.10", 80, 1000)).Bytes(), "icmp_unrelated"),
		dropped(
			"of the client, about an answer to somebody else",
			w.PodA,
			world.Asks(world.VIPB, about(world.VIPB, "10.0.1.12", 80, 1000)).Bytes(),
			"icmp_unrelated",
		),
	})
}

func TestTooBig_WayToBackend_ErrorNamesService(t *testing.T) {
	w := world.NewScaled(t, world.OnUnderlay(t))
	bpftest.SetMTU(t, w.Config.UnderlayIfindex, 1500)
	in := long(world.VIPB, 1451, func(f *wire.Frame) { f.L4 = wire.UDP{Sport: 1000, Dport: 53, Payload: make([]byte, 1451-28)} })
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{{
		Name: "a datagram", Device: w.PodA, In: in, Out: tooBig(in, 1450), Verdict: world.ActRedirect, Counts: world.One("from_pod/replied_too_big"),
	}})
}

func TestFragments_VPCService_GoAndComeBack(t *testing.T) {
	w := world.NewScaled(t)
	first, later := world.DatagramIn(world.Asks(world.VIPB, nil), wire.UDP{Sport: 1000, Dport: 53}, 1)
	far := func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.20") }
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("a later one before its first", w.PodA, later.Bytes(), "egress_fragment"),
		goes("the first", w.PodA, first, world.MacR, func(f *wire.Frame) {
			far(f)
			f.L4 = wire.UDP{Sport: 1000, Dport: 5353, Payload: make([]byte, 16), NoChecksum: false}
		}),
		goes("a later one", w.PodA, later, world.MacR, far),
	})
	answer := wire.Frame{EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP("10.0.1.20"), Dst: wire.IP("10.0.1.10")}
	first, later = world.DatagramIn(answer, wire.UDP{Sport: 5353, Dport: 1000}, 1)
	other := later.With(func(f *wire.Frame) { f.ID = 2 })
	arrives := func(name string, in wire.Frame, out func(*wire.Frame)) world.Case {
		return world.Case{
			Name: name, Device: w.Config.VXLANIfindex, In: in.Bytes(), Verdict: world.ActRedirect, Counts: world.One("from_tunnel/forwarded_local"),
			Out: in.With(func(f *wire.Frame) {
				f.EthSrc = state.VirtualMAC
				out(f)
			}).Bytes(),
		}
	}
	vip := func(f *wire.Frame) { f.Src = wire.IP(world.VIPB) }
	w.Expect(t, world.Tunnelled(t, w, world.VNIRed, wire.IP("192.0.2.2")), []world.Case{
		arrives("the first of the answer", first, func(f *wire.Frame) {
			vip(f)
			f.L4 = wire.UDP{Sport: 53, Dport: 1000, Payload: make([]byte, 16), NoChecksum: false}
		}),
		arrives("a later one of the answer", later, vip),
		arrives("one of another datagram", other, world.Unchanged),
	})
}

// A pod of the VPC may have the address of a shared service's backend, and use the
// same id for a datagram.
func TestFragment_EqualIDOfSharedBackend_NotFollowed(t *testing.T) {
	w := world.NewScaled(t)
	question, _ := world.DatagramIn(world.Ask(nil), wire.UDP{Sport: 1000, Dport: 53}, 1)
	world.Run(t, w.Objects.AliothFromPod, w.PodA, question.Bytes())
	first, _ := world.DatagramIn(world.Answer(world.ShadowA, nil), wire.UDP{Sport: 5353, Dport: 1000}, 1)
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		answered("the first fragment of the service's answer", w.PodA, first, func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP("10.96.0.10"), wire.IP("10.0.1.10"), wire.UDP{Sport: 53, Dport: 1000, Payload: make([]byte, 16), NoChecksum: false}
		}),
	})
	_, later := world.DatagramIn(
		wire.Frame{EthDst: world.MacA, EthSrc: world.MacR, Src: wire.IP("10.8.1.10"), Dst: wire.IP("10.0.1.10")},
		wire.UDP{Sport: 5353, Dport: 1000},
		1,
	)
	w.Expect(t, world.Tunnelled(t, w, world.VNIRed, wire.IP("192.0.2.2")), []world.Case{{
		Name: "a later fragment of the pod's", Device: w.Config.VXLANIfindex, In: later.Bytes(), Verdict: world.ActRedirect, Counts: world.One("from_tunnel/forwarded_local"),
		Out: later.With(func(f *wire.Frame) { f.EthSrc = state.VirtualMAC }).Bytes(),
	}})
}

// pickedBy returns the backend that receives a packet of pod A.
func pickedBy(t *testing.T, w *world.World, in wire.Frame) netip.Addr {
	t.Helper()
	verdict, out, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, in.Bytes())
	if verdict != world.ActRedirect {
		t.Fatalf("verdict is %d", verdict)
	}
	return netip.AddrFrom4([4]byte(out[30:34]))
}

// many gives the service of TCP port 80 at vipB backends that another node holds.
func many(t *testing.T, w *world.World, affinity time.Duration, hosts ...string) {
	t.Helper()
	s := w.ScaledState()
	at := len(w.State().Services)
	s.Services[at].Backends, s.Services[at].Affinity = nil, affinity
	for _, h := range hosts {
		s.Services[at].Backends = append(s.Services[at].Backends, state.Backend{IP: wire.IP(h), Port: 8080})
	}
	for host := range byte(20) { // removed backends are still there
		at := netip.AddrFrom4([4]byte{10, 0, 1, 30 + host})
		s.Addresses = append(s.Addresses, state.Address{VNI: world.VNIRed, IP: at, Kind: state.Remote, Node: wire.IP("192.0.2.2"), MAC: world.MacR})
	}
	bpftest.Must(t, w.Apply(s))
}

func TestAffinity_Service_ClientKeepsBackend(t *testing.T) {
	w := world.NewScaled(t)
	hosts := []string{"10.0.1.30", "10.0.1.31", "10.0.1.32", "10.0.1.33"}
	opening := func(port uint16) wire.Frame {
		return world.Asks(world.VIPB, wire.TCP{Sport: port, Dport: 80, Flags: wire.FlagSYN})
	}
	many(t, w, time.Hour, hosts...)
	kept := pickedBy(t, w, opening(1000))
	for port := range uint16(50) {
		if got := pickedBy(t, w, opening(1001+port)); got != kept {
			t.Fatalf("flow %d goes to %s, the first went to %s", port, got, kept)
		}
	}
	left := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return h == kept.String() })
	many(t, w, time.Hour, left...)
	next := pickedBy(t, w, opening(2000))
	if next == kept {
		t.Errorf("a new flow goes to %s, which is gone", next)
	}
	for port := range uint16(50) {
		if got := pickedBy(t, w, opening(2001+port)); got != next {
			t.Fatalf("flow %d goes to %s, the first since went to %s", port, got, next)
		}
	}
	if got := pickedBy(t, w, world.Asks(world.VIPB, wire.TCP{Sport: 1000, Dport: 80, Flags: wire.FlagACK})); got != kept {
		t.Errorf("the first flow goes to %s by now", got)
	}

	// An affinity that has ended is not used.
	key := bpf.AliothAffinityKey{
		Service: bpf.AliothServiceKey{Vni: world.VNIRed, Vip: bpf.EncodeAddr(wire.IP(world.VIPB)), Port: bpf.NetworkOrder(80), Proto: state.ProtoTCP},
		Vni:     world.VNIRed, Client: bpf.EncodeAddr(wire.IP("10.0.1.10")),
	}
	var row bpf.AliothAffinity
	table := world.AffinitiesOf(t, w.Datapath, world.VNIRed)
	bpftest.Must(t, table.Lookup(key, &row))
	row.LastOpened -= uint64(time.Hour + time.Second)
	bpftest.Must(t, table.Put(key, row))
	for port := uint16(3000); pickedBy(t, w, opening(port)) == next; port++ {
		bpftest.Must(t, table.Lookup(key, &row))
		row.LastOpened -= uint64(time.Hour + time.Second)
		bpftest.Must(t, table.Put(key, row))
		if port == 3200 {
			t.Fatalf("200 flows all went to %s, whose time is over", next)
		}
	}
}

func TestFlow_BackendsComeAndGo_Stays(t *testing.T) {
	w := world.NewScaled(t)
	hosts := []string{"10.0.1.30", "10.0.1.31", "10.0.1.32", "10.0.1.33"}
	many(t, w, 0, hosts...)
	went := map[uint16]netip.Addr{}
	for port := range uint16(100) {
		went[port] = pickedBy(t, w, world.Asks(world.VIPB, wire.TCP{Sport: 1000 + port, Dport: 80, Flags: wire.FlagSYN}))
	}
	many(t, w, 0, "10.0.1.31", "10.0.1.40", "10.0.1.41")
	for port, host := range went {
		if got := pickedBy(t, w, world.Asks(world.VIPB, wire.TCP{Sport: 1000 + port, Dport: 80, Flags: wire.FlagACK})); got != host {
			t.Fatalf("flow %d moved from %s to %s", port, host, got)
		}
	}
	for port := range uint16(100) {
		got := pickedBy(t, w, world.Asks(world.VIPB, wire.TCP{Sport: 2000 + port, Dport: 80, Flags: wire.FlagSYN}))
		if got == wire.IP("10.0.1.30") || got == wire.IP("10.0.1.32") || got == wire.IP("10.0.1.33") {
			t.Fatalf("a new flow goes to %s, which is gone", got)
		}
	}
}
