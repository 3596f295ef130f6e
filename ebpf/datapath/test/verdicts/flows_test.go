// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Flows may be idle for so long, as in docs/tenants/services.md.
const (
	establishedIdle = 2*time.Hour + 4*time.Minute
	closingIdle     = 10 * time.Second
	dnsIdle         = 6 * time.Second
)

func TestFlow_SecondServiceSameBackendAndPort_Refused(t *testing.T) {
	w := world.New(t)
	syn := wire.TCP{Sport: 1000, Dport: 443, Flags: wire.FlagSYN}
	first := world.Ask(syn).With(func(f *wire.Frame) { f.Dst = wire.IP("10.96.0.1") })
	second := world.Ask(syn).With(func(f *wire.Frame) { f.Dst = wire.IP("10.96.0.2") })
	leaves := func(f *wire.Frame) {
		f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("192.0.2.1"), wire.TCP{Sport: 1000, Dport: 6443, Flags: wire.FlagSYN}
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("by way of the first", w.PodA, first, leaves, state.MarkShared),
		refused("by way of the second, from the same port", w.PodA, second),
		toStack("by way of the first again", w.PodA, first, leaves, state.MarkShared),
	})
}

// A pod's kernel uses a port for another service as soon as the first connection has
// ended, which is before the daemon collects that flow.
func TestFlow_Ended_PortFreeForOtherService(t *testing.T) {
	to := func(vip string, flags uint8) wire.Frame {
		return world.Ask(wire.TCP{Sport: 1000, Dport: 443, Flags: flags}).With(func(f *wire.Frame) { f.Dst = wire.IP(vip) })
	}
	asks := func(name, vip string, flags uint8) world.Case {
		return toStack(name, 0, to(vip, flags), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("192.0.2.1"), wire.TCP{Sport: 1000, Dport: 6443, Flags: flags}
		}, state.MarkShared)
	}
	answers := func(name, vip string, flags uint8) world.Case {
		in := world.Answer(world.ShadowA, wire.TCP{Sport: 6443, Dport: 1000, Flags: flags}).With(func(f *wire.Frame) { f.Src = wire.IP("192.0.2.1") })
		return answered(name, 0, in, func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(vip), wire.IP("10.0.1.10"), wire.TCP{Sport: 443, Dport: 1000, Flags: flags}
		})
	}
	const first, second = "10.96.0.1", "10.96.0.2"
	for name, ends := range map[string]func(run func(ask bool, c world.Case)){
		"closed from both sides": func(run func(bool, world.Case)) {
			run(true, asks("the client closes", first, wire.FlagFIN|wire.FlagACK))
			run(true, refused("while one side is open", 0, to(second, wire.FlagSYN)))
			run(false, answers("the server closes", first, wire.FlagFIN|wire.FlagACK))
		},
		"reset by the client": func(run func(bool, world.Case)) { run(true, asks("a reset", first, wire.FlagRST)) },
		"reset by the server": func(run func(bool, world.Case)) { run(false, answers("a reset", first, wire.FlagRST)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t) // with a share of 2 flows
			run := func(ask bool, c world.Case) {
				program := w.Objects.AliothToPod
				if ask {
					program = w.Objects.AliothFromPod
				}
				c.Device = w.PodA
				w.Expect(t, program, []world.Case{c})
			}
			run(true, asks("an opening", first, wire.FlagSYN))
			ends(run)
			run(true, asks("an opening to the other service", second, wire.FlagSYN))
			run(false, answers("its answer", second, wire.FlagSYN|wire.FlagACK))
			run(true, dropped("a late packet of the first", 0, to(first, wire.FlagACK).Bytes(), "no_connection"))
			run(true, refused("the first again", 0, to(first, wire.FlagSYN)))
			run(true, toStack("one more flow: the ended one counts no more", 0, to(first, wire.FlagSYN).With(func(f *wire.Frame) {
				f.L4 = wire.TCP{Sport: 1001, Dport: 443, Flags: wire.FlagSYN}
			}), func(f *wire.Frame) {
				f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("192.0.2.1"), wire.TCP{Sport: 1001, Dport: 6443, Flags: wire.FlagSYN}
			}, state.MarkShared))
		})
	}
}

// twoOfDNS are two shared services of UDP with one backend.
const firstDNS, secondDNS = "10.96.0.10", "10.96.0.12"

// newTwoOfDNS makes a world with both. leaves returns the translation of a query to one of them,
// answers the answer of the backend to a port of the pod.
func newTwoOfDNS(t *testing.T) (w *world.World, leaves func(name, vip string) world.Case, answers func(name, vip string, port uint16) world.Case) {
	t.Helper()
	w = world.New(t)
	both := w.State()
	for _, service := range both.Services {
		if service.VIP == wire.IP(firstDNS) && service.Proto == state.ProtoUDP {
			service.VIP = wire.IP(secondDNS)
			both.Services = append(both.Services, service)
		}
	}
	if err := w.Apply(both); err != nil {
		t.Fatal(err)
	}
	leaves = func(name, vip string) world.Case {
		return toStack(name, w.PodA, queryTo(vip), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), wire.UDP{Sport: 1000, Dport: 5353}
		}, state.MarkShared)
	}
	answers = func(name, vip string, port uint16) world.Case {
		return answered(name, w.PodA, world.Answer(world.ShadowA, wire.UDP{Sport: 5353, Dport: port}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(vip), wire.IP("10.0.1.10"), wire.UDP{Sport: 53, Dport: 1000}
		})
	}
	return w, leaves, answers
}

func queryTo(vip string) wire.Frame {
	return world.Ask(wire.UDP{Sport: 1000, Dport: 53}).With(func(f *wire.Frame) { f.Dst = wire.IP(vip) })
}

// UDP has no end of a flow: a pod's kernel uses the port of a closed socket for another
// service at any time.
func TestUDPFlow_Silent_PortFreeForOtherService(t *testing.T) {
	w, leaves, answers := newTwoOfDNS(t)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{leaves("a query", firstDNS)})
	w.Expect(t, w.Objects.AliothToPod, []world.Case{answers("the answer", firstDNS, 1000)})
	silence(t, w, 3*time.Second)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{leaves("one to the other service later", secondDNS)})
	w.Expect(t, w.Objects.AliothToPod, []world.Case{answers("its answer", secondDNS, 1000)})
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("one more flow: the silent one counts no more", w.PodA, world.Ask(wire.UDP{Sport: 1001, Dport: 53}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), wire.UDP{Sport: 1001, Dport: 5353}
		}, state.MarkShared),
	})
}

// The backend sees a port of its own for the second of two flows. The port tells its answers and
// the errors about them from the answers of the first flow.
func TestUDPServices_SameBackend_FlowsDistinguished(t *testing.T) {
	w, leaves, answers := newTwoOfDNS(t)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{leaves("a query", firstDNS)})
	port := uint16(0)
	for range 2 {
		verdict, out, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, queryTo(secondDNS).Bytes())
		now := binary.BigEndian.Uint16(out[34:])
		if verdict != world.ActOK || now < 61000 || port != 0 && now != port {
			t.Fatalf("a query to the second service has verdict %d and port %d, before %d", verdict, now, port)
		}
		port = now
	}
	w.Expect(t, w.Objects.AliothToPod, []world.Case{
		answers("the answer of the second", secondDNS, port), answers("the answer of the first", firstDNS, 1000),
		answered("an error about the second", w.PodA,
			world.Answer(world.ShadowA, quoted(world.ShadowA, "10.8.1.10", port, 5353)), func(f *wire.Frame) {
				f.Src, f.Dst, f.L4 = wire.IP(secondDNS), wire.IP("10.0.1.10"), quoted("10.0.1.10", secondDNS, 1000, 53)
			}),
	})
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack(
			"an error of the pod about the second",
			w.PodA,
			world.Ask(quoted(secondDNS, "10.0.1.10", 53, 1000)).With(func(f *wire.Frame) { f.Dst = wire.IP(secondDNS) }),
			func(f *wire.Frame) {
				f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), quoted("10.8.1.10", world.ShadowA, 5353, port)
			},
			state.MarkShared,
		),
		leaves("a query to the first", firstDNS),
	})
	rows, err := world.FlowRows(w.Objects.AliothConnections)
	if err != nil || len(rows) != 4 {
		t.Errorf("connections are %v, %v, want those of two flows", rows, err)
	}
	if n, err := w.SweepConnections(world.Monotonic(t) + 7*time.Second); n != 2 || err != nil {
		t.Errorf("sweep removed %d flows, %v, want both", n, err)
	}
}

// quoted returns an ICMP error about a datagram.
func quoted(src, dst string, sport, dport uint16) wire.ICMP {
	f := wire.Frame{Src: wire.IP(src), Dst: wire.IP(dst), L4: wire.UDP{Sport: sport, Dport: dport, NoChecksum: true}}
	return wire.ICMP{Type: 3, Code: 3, Body: append(make([]byte, 4), f.Bytes()[14:]...)}
}

// silence makes the last packet of all flows older.
func silence(t *testing.T, w *world.World, since time.Duration) {
	t.Helper()
	rows, err := world.FlowRows(w.Objects.AliothConnections)
	if err != nil {
		t.Fatal(err)
	}
	for key, row := range rows {
		row.LastSeen -= uint64(since)
		if err := w.Objects.AliothConnections.Put(key, row); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFlowShare_Exceeded_OnlyThatInterfaceRefused(t *testing.T) {
	w := world.New(t) // with a share of 2
	flow := func(name string, device int, shadow string, port uint16) world.Case {
		return toStack(name, device, world.Ask(wire.UDP{Sport: port, Dport: 53}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(shadow), wire.IP("10.8.1.10"), wire.UDP{Sport: port, Dport: 5353}
		}, state.MarkShared)
	}
	third := world.Ask(wire.UDP{Sport: 1003, Dport: 53}).Bytes()
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		flow("the first flow", w.PodA, world.ShadowA, 1001),
		flow("the second flow", w.PodA, world.ShadowA, 1002),
		dropped("the third flow", w.PodA, third, "conn_limit"),
		flow("the second flow again", w.PodA, world.ShadowA, 1002),
		flow("another interface's flow", w.Twin, "169.254.64.12", 1003),
	})
	now := world.Monotonic(t)
	if n, err := w.SweepConnections(now); n != 0 || err != nil {
		t.Fatalf("sweep of living flows removed %d, %v", n, err)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("the third flow after a sweep that removed nothing", w.PodA, third, "conn_limit"),
	})
	if n, err := w.SweepConnections(now + dnsIdle + 2*time.Second); n != 3 || err != nil {
		t.Fatalf("sweep of idle flows removed %d, %v, want 3", n, err)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		flow("the third flow after the sweep", w.PodA, world.ShadowA, 1003),
		flow("a fourth", w.PodA, world.ShadowA, 1004),
		dropped("a fifth", w.PodA, world.Ask(wire.UDP{Sport: 1005, Dport: 53}).Bytes(), "conn_limit"),
	})
}

func TestFlow_ClosedAndPortReused_OpenedAnew(t *testing.T) {
	w := world.New(t)
	send := func(name string, flags uint8) world.Case {
		return toStack(name, w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: flags}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), wire.TCP{Sport: 1000, Dport: 5353, Flags: flags}
		}, state.MarkShared)
	}
	receive := func(name string, flags uint8) world.Case {
		return answered(name, w.PodA, world.Answer(world.ShadowA, wire.TCP{Sport: 5353, Dport: 1000, Flags: flags}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP("10.96.0.10"), wire.IP("10.0.1.10"), wire.TCP{Sport: 53, Dport: 1000, Flags: flags}
		})
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{send("opening", wire.FlagSYN), send("closing", wire.FlagFIN|wire.FlagACK)})
	w.Expect(t, w.Objects.AliothToPod, []world.Case{receive("closed", wire.FlagFIN|wire.FlagACK)})
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{send("opening again", wire.FlagSYN)})
	now := world.Monotonic(t)
	if n, err := w.SweepConnections(now + closingIdle + 2*time.Second); n != 0 || err != nil {
		t.Errorf("sweep took the reopened flow for a closed one: %d, %v", n, err)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{send("closing again", wire.FlagFIN|wire.FlagACK)})
	w.Expect(t, w.Objects.AliothToPod, []world.Case{receive("closed again", wire.FlagFIN|wire.FlagACK)})
	if n, err := w.SweepConnections(now + closingIdle + 2*time.Second); n != 1 || err != nil {
		t.Errorf("sweep of the closed flow removed %d, %v, want 1", n, err)
	}
}

// A pod that ends a flow to a service, and connects to the backend's own address from the same
// port, gets the backend's reply from that address, whichever side has ended the flow.
func TestFlow_BackendItselfAfterService_RepliesNotTranslated(t *testing.T) {
	opened, data := wire.TCP{Sport: 5353, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}, wire.TCP{Sport: 5353, Dport: 1000, Flags: wire.FlagACK}
	own := func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.10") }
	for name, end := range map[string]func(*testing.T, *world.World){
		"reset by the pod": func(t *testing.T, w *world.World) {
			world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagRST}).Bytes())
		},
		"reset by the backend": func(t *testing.T, w *world.World) {
			world.Run(t, w.Objects.AliothToPod, w.PodA, world.Answer(world.ShadowA, wire.TCP{Sport: 5353, Dport: 1000, Flags: wire.FlagRST}).Bytes())
		},
		"removed by half": removeForward,
	} {
		t.Run(name, func(t *testing.T) {
			w := world.New(t)
			world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagSYN}).Bytes())
			w.Expect(t, w.Objects.AliothToPod, []world.Case{
				answered("the service's reply", w.PodA, world.Answer(world.ShadowA, opened), func(f *wire.Frame) {
					f.Src, f.Dst, f.L4 = wire.IP("10.96.0.10"), wire.IP("10.0.1.10"), wire.TCP{Sport: 53, Dport: 1000, Flags: opened.Flags}
				}),
			})
			end(t, w)
			w.Expect(t, w.Objects.AliothToPod, []world.Case{
				answered("the backend's own reply", w.PodA, world.Answer(world.ShadowA, opened), own),
				answered("data after it", w.PodA, world.Answer(world.ShadowA, data), own),
			})
		})
	}
}

// A backend whose queue of connections is full repeats its reply to the opening. The pod may have
// closed its side by then, and still waits for the answer.
func TestFlow_PodClosedReplyRepeated_Kept(t *testing.T) {
	w := world.New(t)
	for _, flags := range []uint8{wire.FlagSYN, wire.FlagFIN | wire.FlagACK} {
		world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: flags}).Bytes())
	}
	for name, flags := range map[string]uint8{"the reply again": wire.FlagSYN | wire.FlagACK, "the answer": wire.FlagACK} {
		w.Expect(t, w.Objects.AliothToPod, []world.Case{
			answered(name, w.PodA, world.Answer(world.ShadowA, wire.TCP{Sport: 5353, Dport: 1000, Flags: flags}), func(f *wire.Frame) {
				f.Src, f.Dst, f.L4 = wire.IP("10.96.0.10"), wire.IP("10.0.1.10"), wire.TCP{Sport: 53, Dport: 1000, Flags: flags}
			}),
		})
	}
	fin := wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagFIN | wire.FlagACK}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("the end again", w.PodA, world.Ask(fin), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), wire.TCP{Sport: 1000, Dport: 5353, Flags: fin.Flags}
		}, state.MarkShared),
	})
}

// Each flow that such a reply ends returns exactly its share to the interface.
func TestReply_EndsFlow_ShareReturnedOnce(t *testing.T) {
	w := world.New(t) // with a share of 2
	send := func(port uint16, flags uint8) (verdict uint32) {
		verdict, _, _ = world.Run(t, w.Objects.AliothFromPod, w.PodA, world.Ask(wire.TCP{Sport: port, Dport: 53, Flags: flags}).Bytes())
		return verdict
	}
	if send(999, wire.FlagSYN) != world.ActOK { // stays
		t.Fatal("the first flow was refused")
	}
	for i := range 8 {
		port := uint16(1000 + i)
		if verdict := send(port, wire.FlagSYN); verdict != world.ActOK {
			t.Fatalf("the verdict of opening %d is %d", i, verdict)
		}
		if i%2 == 0 {
			send(port, wire.FlagRST)
		} else {
			world.Run(t, w.Objects.AliothToPod, w.PodA, world.Answer(world.ShadowA, wire.TCP{Sport: 5353, Dport: port, Flags: wire.FlagRST}).Bytes())
		}
		reply := wire.TCP{Sport: 5353, Dport: port, Flags: wire.FlagSYN | wire.FlagACK}
		own := answered("the backend's own reply", w.PodA, world.Answer(world.ShadowA, reply), func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.10") })
		w.Expect(t, w.Objects.AliothToPod, []world.Case{own, own})
	}
	rows, err := world.FlowRows(w.Objects.AliothConnections)
	if err != nil || len(rows) != 2 {
		t.Errorf("connections are %v, %v, want those of one flow", rows, err)
	}
	if send(1100, wire.FlagSYN) != world.ActOK {
		t.Error("the second flow was refused")
	}
	third := world.Ask(wire.TCP{Sport: 1101, Dport: 53, Flags: wire.FlagSYN}).Bytes()
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{dropped("the third flow", w.PodA, third, "conn_limit")})
}

// Half a flow is left if two deletions of one flow, or a deletion and an opening, meet.
func TestFlow_HalfLeft_OpeningCompletes(t *testing.T) {
	w := world.New(t)
	opening := world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagSYN}).Bytes()
	for range 8 { // more than the share of flows
		if verdict, _, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, opening); verdict != world.ActOK {
			t.Fatalf("the verdict of the opening is %d", verdict)
		}
		w.Expect(t, w.Objects.AliothToPod, []world.Case{
			answered("a reply", w.PodA, world.Answer(world.ShadowA, wire.TCP{Sport: 5353, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}), func(f *wire.Frame) {
				f.Src, f.Dst, f.L4 = wire.IP("10.96.0.10"), wire.IP("10.0.1.10"), wire.TCP{Sport: 53, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}
			}),
		})
		removeEntries(t, w, bpf.AliothConnDirectionCONN_REVERSE)
	}
}

func removeForward(t *testing.T, w *world.World) {
	t.Helper()
	removeEntries(t, w, bpf.AliothConnDirectionCONN_FORWARD)
}

// removeEntries deletes one of the two entries of all flows.
func removeEntries(t *testing.T, w *world.World, of bpf.AliothConnDirection) {
	t.Helper()
	rows, err := world.FlowRows(w.Objects.AliothConnections)
	if err != nil {
		t.Fatal(err)
	}
	for key := range rows {
		if key.Direction == of {
			if err := w.Objects.AliothConnections.Delete(key); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFlow_InterfaceRemoved_NotInherited(t *testing.T) {
	w := world.New(t)
	query := toStack("a query", w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}), func(f *wire.Frame) {
		f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), wire.UDP{Sport: 1000, Dport: 5353}
	}, state.MarkShared)
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{query})
	without := w.State()
	without.Interfaces = slices.DeleteFunc(without.Interfaces, func(i state.Interface) bool { return i.Ifindex == w.PodA })
	without.Addresses = slices.DeleteFunc(without.Addresses, func(a state.Address) bool { return a.Ifindex == w.PodA })
	if err := w.Apply(without); err != nil {
		t.Fatal(err)
	}
	rows := map[bpf.AliothConnKey]bpf.AliothConn{}
	if err := bpf.ReadMap(w.Objects.AliothConnections, rows); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[bpf.AliothConnKey]bpf.AliothConn{}, rows); d != "" {
		t.Errorf("flows of a removed interface (-want +got):\n%s", d)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("a packet of the device that has no row any more", w.PodA, world.Ask(wire.UDP{Sport: 1000, Dport: 53}).Bytes(), "unknown_interface"),
	})
	if err := w.Apply(w.State()); err != nil {
		t.Fatal(err)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{query})
}

func TestFlow_ReopenedAfterReset_NotReset(t *testing.T) {
	w := world.New(t)
	send := func(flags uint8) []byte { return world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: flags}).Bytes() }
	world.Run(t, w.Objects.AliothFromPod, w.PodA, send(wire.FlagSYN))
	world.Run(t, w.Objects.AliothToPod, w.PodA, world.Answer(world.ShadowA, wire.TCP{Sport: 5353, Dport: 1000, Flags: wire.FlagRST | wire.FlagACK}).Bytes())
	world.Run(t, w.Objects.AliothFromPod, w.PodA, send(wire.FlagSYN))
	world.Run(t, w.Objects.AliothToPod, w.PodA, world.Answer(world.ShadowA, wire.TCP{Sport: 5353, Dport: 1000, Flags: wire.FlagSYN | wire.FlagACK}).Bytes())
	if n, err := w.SweepConnections(world.Monotonic(t) + closingIdle + 2*time.Second); n != 0 || err != nil {
		t.Errorf("sweep removed %d, %v", n, err)
	}
}

func TestFlow_OpenedAnew_NoSecondShare(t *testing.T) {
	w := world.New(t) // with a share of 2
	opening := world.Ask(wire.TCP{Sport: 1000, Dport: 53, Flags: wire.FlagSYN}).Bytes()
	for i := range 8 {
		s := w.State()
		s.Services[1].Backends = []state.Backend{{IP: wire.IP("10.8.1.10").Next(), Port: uint16(5353 + i)}}
		if err := w.Apply(s); err != nil {
			t.Fatal(err)
		}
		if verdict, _, _ := world.Run(t, w.Objects.AliothFromPod, w.PodA, opening); verdict != world.ActOK {
			t.Fatalf("verdict of opening %d is %d", i, verdict)
		}
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("the second flow", w.PodA, world.Ask(wire.UDP{Sport: 1001, Dport: 53}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), wire.UDP{Sport: 1001, Dport: 5353}
		}, state.MarkShared),
		dropped("the third flow", w.PodA, world.Ask(wire.UDP{Sport: 1002, Dport: 53}).Bytes(), "conn_limit"),
	})
}

func TestFlowTable_Full_NewRefusedWithoutShare(t *testing.T) {
	w := world.New(t)
	room := int(w.Objects.AliothConnections.MaxEntries())
	keys, rows := make([]bpf.AliothConnKey, room), make([]bpf.AliothConn, room)
	for i := range keys {
		keys[i] = bpf.AliothConnKey{Vni: uint32(i), Proto: state.ProtoUDP}
		rows[i] = bpf.AliothConn{LastSeen: 1}
	}
	if _, err := w.Objects.AliothConnections.BatchUpdate(keys, rows, nil); err != nil {
		t.Fatal(err)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		dropped("a flow", w.PodA, world.Ask(wire.UDP{Sport: 1001, Dport: 53}).Bytes(), "conn_full"),
		dropped("another flow", w.PodA, world.Ask(wire.UDP{Sport: 1002, Dport: 53}).Bytes(), "conn_full"),
		dropped("more than the share", w.PodA, world.Ask(wire.UDP{Sport: 1003, Dport: 53}).Bytes(), "conn_full"),
	})
	if n, err := w.SweepConnections(world.Monotonic(t)); n != room || err != nil {
		t.Fatalf("sweep removed %d of %d, %v", n, room, err)
	}
	w.Expect(t, w.Objects.AliothFromPod, []world.Case{
		toStack("a flow after the sweep", w.PodA, world.Ask(wire.UDP{Sport: 1001, Dport: 53}), func(f *wire.Frame) {
			f.Src, f.Dst, f.L4 = wire.IP(world.ShadowA), wire.IP("10.8.1.10"), wire.UDP{Sport: 1001, Dport: 5353}
		}, state.MarkShared),
	})
}
