// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// The virtual addresses of the red VPC's services.
const (
	vipB    = "10.96.1.1" // TCP 80 -> pod B; UDP 53 -> a pod of another node
	vipSelf = "10.96.1.2" // pod A itself
	vipNone = "10.96.1.3" // no backend
	vipB6   = "fd96::1:1"
	vipNone6,
	vipSelf6 = "fd96::1:3", "fd96::1:2"
)

func scaledServices() []state.Service {
	to := func(vni uint32, vip string, proto uint8, port uint16, backends ...state.Backend) state.Service {
		return state.Service{VNI: vni, VIP: Ip(vip), Proto: proto, Port: port, Backends: backends}
	}
	a, b, far := Ip("10.0.1.10"), Ip("10.0.1.11"), Ip("10.0.1.20")
	a6, b6 := Ip("fd10:0:0:1::10"), Ip("fd10:0:0:1::11")
	return []state.Service{
		to(vniRed, vipB, state.ProtoTCP, 80, state.Backend{IP: b, Port: 8080}), to(vniRed, vipB, state.ProtoUDP, 53, state.Backend{IP: far, Port: 5353}),
		to(vniRed, vipSelf, state.ProtoTCP, 80, state.Backend{IP: a, Port: 8080}), to(vniRed, vipSelf, state.ProtoUDP, 53, state.Backend{IP: a, Port: 5353}),
		to(vniRed, vipNone, state.ProtoTCP, 80), to(vniRed, vipNone, state.ProtoUDP, 53),
		to(vniRed, vipB6, state.ProtoTCP, 80, state.Backend{IP: b6, Port: 8080}), to(vniRed, vipSelf6, state.ProtoTCP, 80, state.Backend{IP: a6, Port: 8080}),
		to(vniRed, vipNone6, state.ProtoTCP, 80), to(vniRed, vipNone6, state.ProtoUDP, 53),
		to(vniBlue, vipB, state.ProtoTCP, 80, state.Backend{IP: b, Port: 9090}),
	}
}

// scaledState is the world with services in its VPCs.
func (w *world) scaledState() state.State {
	s := w.state()
	s.Services = append(s.Services, scaledServices()...)
	s.Addresses = append(s.Addresses, state.Address{VNI: vniBlue, IP: Ip("10.0.1.11"), Kind: state.Remote, Node: Ip("192.0.2.2"), MAC: macR})
	return s
}

func newScaledWorld(t *testing.T, adapt ...func(*programs.Config)) *world {
	t.Helper()
	w := newWorld(t, append(adapt, func(c *programs.Config) { c.ConnectionsPerInterface = 1000 })...)
	Must(t, w.Apply(w.scaledState()))
	return w
}

// goes is a packet from a pod to a pod: of this node, if its Ethernet address says
// so, or through the tunnel.
func goes(name string, device int, in frame, dst state.MAC, out func(*frame)) verdictCase {
	c := verdictCase{
		name: name, device: device, in: in.bytes(), verdict: actRedirect, counts: one("from_pod/forwarded_local"),
		out: in.with(func(f *frame) {
			f.EthDst, f.EthSrc = dst, state.VirtualMAC
			if dst == macR {
				f.EthSrc = MacA
			}
			out(f)
		}).bytes(),
	}
	if dst == macR {
		c.counts = one("from_pod/forwarded_remote")
	}
	return c
}

// asks is a packet of pod A, or of its twin, to a virtual address; says one of pod
// B to pod A.
func asks(vip string, l4 transport) frame {
	base := fromA
	if Ip(vip).Is6() {
		base = fromA6
	}
	return base(func(f *frame) { f.Dst, f.L4 = Ip(vip), l4 })
}

func says(l4 transport) frame {
	return frame{EthDst: state.VirtualMAC, EthSrc: MacB, Src: Ip("10.0.1.11"), Dst: Ip("10.0.1.10"), L4: l4}
}

// sees is how pod A gets it.
func sees(name string, w *world, in frame, out func(*frame)) verdictCase {
	return goes(name, w.podB, in, MacA, out)
}

func TestAServiceIsReachedInItsVPCOnly(t *testing.T) {
	w := newScaledWorld(t)
	syn, data := tcp{Sport: 1000, Dport: 80, Flags: flagSYN}, tcp{Sport: 1000, Dport: 80, Flags: flagACK, Payload: []byte("x")}
	to := func(dst string, l4 transport) func(*frame) { return func(f *frame) { f.Dst, f.L4 = Ip(dst), l4 } }
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		goes("an opening of red", w.podA, asks(vipB, syn), MacB, to("10.0.1.11", tcp{Sport: 1000, Dport: 8080, Flags: flagSYN})),
		goes("the same packet of blue", w.twin, asks(vipB, syn), macR, to("10.0.1.11", tcp{Sport: 1000, Dport: 9090, Flags: flagSYN})),
		goes("red's data", w.podA, asks(vipB, data), MacB, to("10.0.1.11", tcp{Sport: 1000, Dport: 8080, Flags: flagACK, Payload: []byte("x")})),
		goes("blue's data", w.twin, asks(vipB, data), macR, to("10.0.1.11", tcp{Sport: 1000, Dport: 9090, Flags: flagACK, Payload: []byte("x")})),
		goes("red's datagram to another node", w.podA, asks(vipB, udp{Sport: 1000, Dport: 53}), macR, to("10.0.1.20", udp{Sport: 1000, Dport: 5353})),
		goes("a datagram without a checksum", w.podA, asks(vipB, udp{Sport: 1001, Dport: 53, NoChecksum: true}), macR,
			to("10.0.1.20", udp{Sport: 1001, Dport: 5353, NoChecksum: true})),
		goes("over IPv6", w.podA, asks(vipB6, syn), MacB, to("fd10:0:0:1::11", tcp{Sport: 1000, Dport: 8080, Flags: flagSYN})),
		dropped("a service of red from blue", w.twin, asks(vipSelf, syn).bytes(), "egress_closed"),
		dropped("a port that it does not have", w.podA, asks(vipB, tcp{Sport: 1000, Dport: 81, Flags: flagSYN}).bytes(), "service_port"),
		dropped("data of no connection", w.podA, asks(vipB, tcp{Sport: 1001, Dport: 80, Flags: flagACK}).bytes(), "no_connection"),
		dropped("a fragment of TCP", w.podA, asks(vipB, syn).with(func(f *frame) { f.Fragment = &fragment{0, true} }).bytes(), "egress_fragment"),
		dropped("another protocol", w.podA, asks(vipB, raw{47, make([]byte, 32)}).bytes(), "egress_protocol"),
		goes("a service that all share", w.podA, asks(vipB, data), MacB, to("10.0.1.11", tcp{Sport: 1000, Dport: 8080, Flags: flagACK, Payload: []byte("x")})),
		toStack("a shared service", w.podA, ask(udp{Sport: 1000, Dport: 53}), func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip(shadowA), Ip("10.8.1.10"), udp{Sport: 1000, Dport: 5353}
		}, state.MarkShared),
	})
	vip := func(l4 transport) func(*frame) { return func(f *frame) { f.Src, f.L4 = Ip(vipB), l4 } }
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		sees("the answer of a pod of this node", w, says(tcp{Sport: 8080, Dport: 1000, Flags: flagSYN | flagACK}), vip(tcp{Sport: 80, Dport: 1000, Flags: flagSYN | flagACK})),
		sees("what the backend sends from another port", w, says(tcp{Sport: 8081, Dport: 1000, Flags: flagACK}), unchanged),
		sees("what it sends to another port", w, says(tcp{Sport: 8080, Dport: 1001, Flags: flagACK}), unchanged),
	})
	arrives := func(name string, device int, in frame, out func(*frame)) verdictCase {
		return verdictCase{
			name: name, device: device, in: in.bytes(), verdict: actRedirect, counts: one("from_tunnel/forwarded_local"),
			out: in.with(func(f *frame) {
				f.EthDst, f.EthSrc = MacA, state.VirtualMAC
				out(f)
			}).bytes(),
		}
	}
	far := func(src string, l4 transport) frame {
		return frame{EthDst: MacA, EthSrc: macR, Src: Ip(src), Dst: Ip("10.0.1.10"), L4: l4}
	}
	w.check(t, tunnelled(t, w, vniRed, Ip("192.0.2.2")), []verdictCase{
		arrives("the answer of another node's", w.podA, far("10.0.1.20", udp{Sport: 5353, Dport: 1000}), vip(udp{Sport: 53, Dport: 1000})),
		arrives("a pod with the address of a shared service's backend", w.podA, far("10.8.1.10", udp{Sport: 5353, Dport: 1000}), unchanged),
	})
	w.check(t, tunnelled(t, w, vniBlue, Ip("192.0.2.2")), []verdictCase{
		arrives("the answer to blue", w.twin, far("10.0.1.11", tcp{Sport: 9090, Dport: 1000, Flags: flagACK}), vip(tcp{Sport: 80, Dport: 1000, Flags: flagACK})),
		arrives("from red's port to blue", w.twin, far("10.0.1.11", tcp{Sport: 8080, Dport: 1000, Flags: flagACK}), unchanged),
	})
}

func TestAPodReachesItselfByItsService(t *testing.T) {
	w := newScaledWorld(t)
	for _, c := range []struct {
		vip, self, gateway string
		there, back        func(sport, dport uint16) transport
	}{
		{
			vipSelf, "10.0.1.10", "10.0.1.1",
			func(s, d uint16) transport { return tcp{Sport: s, Dport: d, Flags: flagSYN} },
			func(s, d uint16) transport { return tcp{Sport: s, Dport: d, Flags: flagSYN | flagACK} },
		},
		{
			vipSelf6, "fd10:0:0:1::10", "fd10:0:0:1::1",
			func(s, d uint16) transport { return tcp{Sport: s, Dport: d, Flags: flagSYN} },
			func(s, d uint16) transport { return tcp{Sport: s, Dport: d, Flags: flagSYN | flagACK} },
		},
	} {
		answer := asks(c.gateway, c.back(8080, 1000))
		w.check(t, w.objects.AliothFromPod, []verdictCase{
			goes("what it asks "+c.vip, w.podA, asks(c.vip, c.there(1000, 80)), MacA, func(f *frame) {
				f.Src, f.Dst, f.L4 = Ip(c.gateway), Ip(c.self), c.there(1000, 8080)
			}),
			goes("what it answers", w.podA, answer, MacA, func(f *frame) {
				f.Src, f.Dst, f.L4 = Ip(c.vip), Ip(c.self), c.back(80, 1000)
			}),
			dropped("what it says to the gateway beside", w.podA, asks(c.gateway, c.back(8080, 1001)).bytes(), "gateway_closed"),
		})
	}
}

func TestAPodThatAnswersToTheGatewayReachesNobodyElse(t *testing.T) {
	w := newScaledWorld(t)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		goes("an opening of pod A", w.podA, asks(vipB, tcp{Sport: 1000, Dport: 80, Flags: flagSYN}), MacB, func(f *frame) {
			f.Dst, f.L4 = Ip("10.0.1.11"), tcp{Sport: 1000, Dport: 8080, Flags: flagSYN}
		}),
		dropped("pod B answers pod A's flow to the gateway", w.podB,
			says(tcp{Sport: 8080, Dport: 1000, Flags: flagSYN | flagACK}).with(func(f *frame) { f.Dst = Ip("10.0.1.1") }).bytes(), "gateway_closed"),
	})
}

// resetOf is the refusal of an opening.
func resetOf(in frame) []byte {
	asked := in.L4.(tcp)
	b := binary.BigEndian.AppendUint16(nil, asked.Dport)
	b = binary.BigEndian.AppendUint16(b, asked.Sport)
	b = append(b, 0, 0, 0, 0, 1, 2, 3, 5, 5<<4, flagRST|flagACK, 0, 0, 0, 0, 0, 0)
	src, dst := in.Dst.AsSlice(), in.Src.AsSlice()
	binary.BigEndian.PutUint16(b[16:], fold(sum(sum(sum(state.ProtoTCP+20, src), dst), b)))
	out := frame{EthDst: MacA, EthSrc: state.VirtualMAC, Src: in.Dst, Dst: in.Src, Whole: true, L4: raw{state.ProtoTCP, b}}.bytes()
	if in.Dst.Is4() {
		copy(out[18:20], []byte{0, 0}) // no identification
		return trafficClass(out, 0)
	}
	return out
}

// unreachable is what pod A is told about a datagram that nobody takes.
func unreachable(about []byte) []byte {
	out := tooBig(about, 0)
	kind, l4, pseudo := []byte{3, 3, 0, 0}, out[34:], uint32(0)
	if out[14]>>4 == 6 {
		kind, l4 = []byte{1, 4, 0, 0}, out[54:]
		pseudo = sum(uint32(58+len(l4)), out[22:54])
	}
	copy(l4, kind)
	binary.BigEndian.PutUint16(l4[2:], fold(sum(pseudo, l4)))
	return out
}

func TestWhoAsksAServiceWithoutBackendsIsRefusedAtOnce(t *testing.T) {
	w := newScaledWorld(t)
	refused := func(name string, in, out []byte) verdictCase {
		return verdictCase{name: name, device: w.podA, in: in, out: out, verdict: actRedirect, counts: one("from_pod/replied_refused")}
	}
	syn := tcp{Sport: 1000, Dport: 80, Flags: flagSYN}
	var cases []verdictCase
	for name, in := range map[string]frame{
		"TCP": asks(vipNone, syn), "TCP over IPv6": asks(vipNone6, syn),
		"TCP that carries data": asks(vipNone, tcp{Sport: 1000, Dport: 80, Flags: flagSYN, Payload: make([]byte, 100)}),
		"TCP with IPv4 options": asks(vipNone, syn).with(func(f *frame) { f.Options = []byte{1, 1, 1, 0} }),
		"TCP behind a header":   asks(vipNone6, syn).with(func(f *frame) { f.Extensions = []extension{{60, make([]byte, 6)}} }),
	} {
		cases = append(cases, refused(name, in.bytes(), resetOf(in)))
	}
	for name, in := range map[string]frame{
		"UDP": asks(vipNone, udp{Sport: 1000, Dport: 53, Payload: []byte("query")}), "UDP over IPv6": asks(vipNone6, udp{Sport: 1000, Dport: 53}),
		"long UDP": asks(vipNone, udp{Sport: 1000, Dport: 53, Payload: make([]byte, 1400)}),
	} {
		cases = append(cases, refused(name, in.bytes(), unreachable(in.bytes())))
	}
	cases = append(cases, dropped("data of a connection that never was", w.podA, asks(vipNone, tcp{Sport: 1000, Dport: 80, Flags: flagACK}).bytes(), "no_connection"))
	w.check(t, w.objects.AliothFromPod, cases)
}

func TestAServiceAnswersPing(t *testing.T) {
	w := newScaledWorld(t)
	pong := func(name, vip string, v6 bool, request, reply uint8) verdictCase {
		body := []byte("a ping of us")
		in := asks(vip, icmp{V6: v6, Type: request, Body: body})
		return verdictCase{
			name: name, device: w.podA, in: in.bytes(), verdict: actRedirect, counts: one("from_pod/replied"),
			out: in.with(func(f *frame) {
				f.EthDst, f.EthSrc, f.Src, f.Dst = MacA, state.VirtualMAC, in.Dst, in.Src
				f.L4 = icmp{V6: v6, Type: reply, Body: body}
			}).bytes(),
		}
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		pong("IPv4", vipB, false, 8, 0), pong("IPv6", vipB6, true, 128, 129), pong("without backends", vipNone, false, 8, 0),
		dropped("a time stamp", w.podA, asks(vipB, icmp{Type: 13, Body: make([]byte, 16)}).bytes(), "service_icmp"),
	})
}

func TestErrorsAboutAServicesFlowFindTheirFlow(t *testing.T) {
	w := newScaledWorld(t)
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		goes("a flow", w.podA, asks(vipB, tcp{Sport: 1000, Dport: 80, Flags: flagSYN}), MacB, func(f *frame) {
			f.Dst, f.L4 = Ip("10.0.1.11"), tcp{Sport: 1000, Dport: 8080, Flags: flagSYN}
		}),
	})
	about := func(src, dst string, sport, dport uint16) icmp {
		f := frame{Src: Ip(src), Dst: Ip(dst), L4: udp{Sport: sport, Dport: dport, NoChecksum: true}}
		b := f.bytes()[14:]
		b[9] = state.ProtoTCP
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], fold(sum(0, b[:20])))
		return icmp{Type: 3, Code: 2, Body: slices.Concat(make([]byte, 4), b)}
	}
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		sees("of the backend, about a question", w, says(about("10.0.1.10", "10.0.1.11", 1000, 8080)), func(f *frame) {
			f.Src, f.L4 = Ip(vipB), about("10.0.1.10", vipB, 1000, 80)
		}),
		sees("of the backend, about another flow", w, says(about("10.0.1.10", "10.0.1.11", 1001, 8080)), unchanged),
		goes("of the client, about an answer", w.podA, asks(vipB, about(vipB, "10.0.1.10", 80, 1000)), MacB, func(f *frame) {
			f.Dst, f.L4 = Ip("10.0.1.11"), about("10.0.1.11", "10.0.1.10", 8080, 1000)
		}),
		dropped("of the client, about no answer", w.podA, asks(vipB, about(vipB, "10.0.1.10", 80, 1001)).bytes(), "no_connection"),
		dropped("of the client, about somebody else's", w.podA, asks(vipB, about("10.0.1.11", "10.0.1.10", 80, 1000)).bytes(), "icmp_unrelated"),
		dropped("of the client, about an answer to somebody else", w.podA, asks(vipB, about(vipB, "10.0.1.12", 80, 1000)).bytes(), "icmp_unrelated"),
	})
}

func TestASenderThatIsTooBigForTheWayToABackendReadsOfTheService(t *testing.T) {
	w := newScaledWorld(t, onUnderlay(t))
	setMTU(t, w.cfg.UnderlayIfindex, 1500)
	in := long(vipB, 1451, func(f *frame) { f.L4 = udp{Sport: 1000, Dport: 53, Payload: make([]byte, 1451-28)} })
	w.check(t, w.objects.AliothFromPod, []verdictCase{{
		name: "a datagram", device: w.podA, in: in, out: tooBig(in, 1450), verdict: actRedirect, counts: one("from_pod/replied_too_big"),
	}})
}

func TestFragmentsGoToAServiceOfTheVPCAndBack(t *testing.T) {
	w := newScaledWorld(t)
	first, later := datagramIn(asks(vipB, nil), udp{Sport: 1000, Dport: 53}, 1)
	far := func(f *frame) { f.Dst = Ip("10.0.1.20") }
	w.check(t, w.objects.AliothFromPod, []verdictCase{
		dropped("a later one before its first", w.podA, later.bytes(), "egress_fragment"),
		goes("the first", w.podA, first, macR, func(f *frame) {
			far(f)
			f.L4 = udp{1000, 5353, make([]byte, 16), false}
		}),
		goes("a later one", w.podA, later, macR, far),
	})
	answer := frame{EthDst: MacA, EthSrc: macR, Src: Ip("10.0.1.20"), Dst: Ip("10.0.1.10")}
	first, later = datagramIn(answer, udp{Sport: 5353, Dport: 1000}, 1)
	other := later.with(func(f *frame) { f.ID = 2 })
	arrives := func(name string, in frame, out func(*frame)) verdictCase {
		return verdictCase{
			name: name, device: w.cfg.VXLANIfindex, in: in.bytes(), verdict: actRedirect, counts: one("from_tunnel/forwarded_local"),
			out: in.with(func(f *frame) {
				f.EthSrc = state.VirtualMAC
				out(f)
			}).bytes(),
		}
	}
	vip := func(f *frame) { f.Src = Ip(vipB) }
	w.check(t, tunnelled(t, w, vniRed, Ip("192.0.2.2")), []verdictCase{
		arrives("the first of the answer", first, func(f *frame) {
			vip(f)
			f.L4 = udp{53, 1000, make([]byte, 16), false}
		}),
		arrives("a later one of the answer", later, vip),
		arrives("one of another datagram", other, unchanged),
	})
}

// A pod of the VPC may have the address of a shared service's backend, and use the
// same id for a datagram.
func TestFragmentsFromInsideFollowNoneFromBeyondTheDoor(t *testing.T) {
	w := newScaledWorld(t)
	question, _ := datagramIn(ask(nil), udp{Sport: 1000, Dport: 53}, 1)
	run(t, w.objects.AliothFromPod, w.podA, question.bytes())
	first, _ := datagramIn(answer(shadowA, nil), udp{Sport: 5353, Dport: 1000}, 1)
	w.check(t, w.objects.AliothToPod, []verdictCase{
		answered("the first fragment of the service's answer", w.podA, first, func(f *frame) {
			f.Src, f.Dst, f.L4 = Ip("10.96.0.10"), Ip("10.0.1.10"), udp{53, 1000, make([]byte, 16), false}
		}),
	})
	_, later := datagramIn(frame{EthDst: MacA, EthSrc: macR, Src: Ip("10.8.1.10"), Dst: Ip("10.0.1.10")}, udp{Sport: 5353, Dport: 1000}, 1)
	w.check(t, tunnelled(t, w, vniRed, Ip("192.0.2.2")), []verdictCase{{
		name: "a later fragment of the pod's", device: w.cfg.VXLANIfindex, in: later.bytes(), verdict: actRedirect, counts: one("from_tunnel/forwarded_local"),
		out: later.with(func(f *frame) { f.EthSrc = state.VirtualMAC }).bytes(),
	}})
}

// pickedBy returns the backend to which a packet of pod A goes.
func pickedBy(t *testing.T, w *world, in frame) netip.Addr {
	t.Helper()
	verdict, out, _ := run(t, w.objects.AliothFromPod, w.podA, in.bytes())
	if verdict != actRedirect {
		t.Fatalf("verdict is %d", verdict)
	}
	return netip.AddrFrom4([4]byte(out[30:34]))
}

// many gives the service of TCP port 80 at vipB backends that another node holds.
func (w *world) many(t *testing.T, affinity time.Duration, hosts ...string) {
	t.Helper()
	s := w.scaledState()
	at := len(w.state().Services)
	s.Services[at].Backends, s.Services[at].Affinity = nil, affinity
	for _, h := range hosts {
		s.Services[at].Backends = append(s.Services[at].Backends, state.Backend{IP: Ip(h), Port: 8080})
	}
	for host := range byte(20) { // who is no backend any more is still there
		at := netip.AddrFrom4([4]byte{10, 0, 1, 30 + host})
		s.Addresses = append(s.Addresses, state.Address{VNI: vniRed, IP: at, Kind: state.Remote, Node: Ip("192.0.2.2"), MAC: macR})
	}
	Must(t, w.Apply(s))
}

func TestAClientKeepsItsBackendWhereTheServiceSaysSo(t *testing.T) {
	w := newScaledWorld(t)
	hosts := []string{"10.0.1.30", "10.0.1.31", "10.0.1.32", "10.0.1.33"}
	opening := func(port uint16) frame { return asks(vipB, tcp{Sport: port, Dport: 80, Flags: flagSYN}) }
	w.many(t, time.Hour, hosts...)
	kept := pickedBy(t, w, opening(1000))
	for port := range uint16(50) {
		if got := pickedBy(t, w, opening(1001+port)); got != kept {
			t.Fatalf("flow %d goes to %s, the first went to %s", port, got, kept)
		}
	}
	left := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return h == kept.String() })
	w.many(t, time.Hour, left...)
	next := pickedBy(t, w, opening(2000))
	if next == kept {
		t.Errorf("a new flow goes to %s, which is gone", next)
	}
	for port := range uint16(50) {
		if got := pickedBy(t, w, opening(2001+port)); got != next {
			t.Fatalf("flow %d goes to %s, the first since went to %s", port, got, next)
		}
	}
	if got := pickedBy(t, w, asks(vipB, tcp{Sport: 1000, Dport: 80, Flags: flagACK})); got != kept {
		t.Errorf("the first flow goes to %s by now", got)
	}

	// An affinity that is over counts no more.
	key := bpf.AliothAffinityKey{
		Service: bpf.AliothServiceKey{Vni: vniRed, Vip: bpf.EncodeAddr(Ip(vipB)), Port: bpf.NetworkOrder(80), Proto: state.ProtoTCP},
		Vni:     vniRed, Client: bpf.EncodeAddr(Ip("10.0.1.10")),
	}
	var row bpf.AliothAffinity
	table := affinitiesOf(t, w.opened, vniRed)
	Must(t, table.Lookup(key, &row))
	row.LastOpened -= uint64(time.Hour + time.Second)
	Must(t, table.Put(key, row))
	for port := uint16(3000); pickedBy(t, w, opening(port)) == next; port++ {
		Must(t, table.Lookup(key, &row))
		row.LastOpened -= uint64(time.Hour + time.Second)
		Must(t, table.Put(key, row))
		if port == 3200 {
			t.Fatalf("200 flows all went to %s, whose time is over", next)
		}
	}
}

func TestFlowsStayWhereTheyAreWhenBackendsComeAndGo(t *testing.T) {
	w := newScaledWorld(t)
	hosts := []string{"10.0.1.30", "10.0.1.31", "10.0.1.32", "10.0.1.33"}
	w.many(t, 0, hosts...)
	went := map[uint16]netip.Addr{}
	for port := range uint16(100) {
		went[port] = pickedBy(t, w, asks(vipB, tcp{Sport: 1000 + port, Dport: 80, Flags: flagSYN}))
	}
	w.many(t, 0, "10.0.1.31", "10.0.1.40", "10.0.1.41")
	for port, host := range went {
		if got := pickedBy(t, w, asks(vipB, tcp{Sport: 1000 + port, Dport: 80, Flags: flagACK})); got != host {
			t.Fatalf("flow %d moved from %s to %s", port, host, got)
		}
	}
	for port := range uint16(100) {
		got := pickedBy(t, w, asks(vipB, tcp{Sport: 2000 + port, Dport: 80, Flags: flagSYN}))
		if got == Ip("10.0.1.30") || got == Ip("10.0.1.32") || got == Ip("10.0.1.33") {
			t.Fatalf("a new flow goes to %s, which is gone", got)
		}
	}
}
