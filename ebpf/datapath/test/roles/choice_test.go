// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// nodes returns n addresses of members.
func nodes(n int) (list []netip.Addr) {
	for i := range n {
		list = append(list, netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}))
	}
	return list
}

// sender returns a world whose red VPC has no row of 10.0.1.99 and these bouncers.
func sender(t *testing.T, list []netip.Addr) *bench {
	t.Helper()
	w := world.New(t, world.OnUnderlay(t))
	s := w.State()
	s.Roles = []state.Role{{Key: state.RoleKey{VNI: world.VNIRed, ID: 1}, Members: list}}
	for i := range s.Subnets {
		if s.Subnets[i].VNI == world.VNIRed {
			s.Subnets[i].Role = 1
		}
	}
	bpftest.Must(t, w.Apply(s))
	return newBench(w, 4096)
}

// memberOf sends a packet of a flow of pod A, and returns the member that it goes over.
func (b *bench) memberOf(t *testing.T, port uint16) netip.Addr {
	t.Helper()
	f := world.FromA(func(f *wire.Frame) { f.Dst, f.L4 = wire.IP("10.0.1.99"), wire.UDP{Sport: port, Dport: 80} })
	verdict, out := b.once(t, b.Objects.AliothFromPod, b.PodA, f.Bytes())
	if verdict != world.ActRedirect {
		t.Fatalf("verdict %d, counters %v", verdict, bpftest.Counts(t, b.Datapath))
	}
	node, _, _ := hopOf(t, out)
	return node
}

func TestChoice_OverTime_EveryMemberUsed(t *testing.T) {
	for _, n := range []int{1, 2, 4, 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b, seen := sender(t, nodes(n)), map[netip.Addr]bool{}
			// The others have to follow a dead member.
			bpftest.Eventually(t, "a flow has used all members", func() bool {
				seen[b.memberOf(t, 1000)] = true
				return len(seen) == n
			})
		})
	}
}

func TestChoice_ManyFlows_SpreadOverMembers(t *testing.T) {
	const flows = 4096
	for _, n := range []int{2, 16, state.RoleMembersAtMost} {
		b, count := sender(t, nodes(n)), map[netip.Addr]int{}
		for i := range flows {
			count[b.memberOf(t, uint16(1000+i))]++
		}
		for _, node := range nodes(n) {
			// An even spread has a deviation of the root of the mean; 6 of them are rare enough.
			if mean := flows / n; count[node] < mean/2 || count[node] > 2*mean {
				t.Errorf("of %d members, %s has %d of %d flows", n, node, count[node], flows)
			}
		}
	}
}

// Packets of a flow stay in order within a slot. Between two slots a flow may change once.
func TestChoice_WithinSlot_MemberKept(t *testing.T) {
	const slot = 250e6
	b := sender(t, nodes(16))
	compared := 0
	bpftest.Eventually(t, "two packets were sent in one slot", func() bool {
		before := world.Monotonic(t)
		one, other := b.memberOf(t, 1000), b.memberOf(t, 1000)
		// The programs read the clock of ticks, which is behind by one at most.
		if int64(before)/slot != (int64(world.Monotonic(t))+20e6)/slot || (int64(before)-20e6)/slot != int64(before)/slot {
			return false
		}
		if one != other {
			t.Errorf("packets of one slot went over %s and %s", one, other)
		}
		compared++
		return compared == 10
	})
}

// A table of the daemon that lists the node itself must not make a packet go round.
func TestChoice_NodeItselfListed_NeverChosen(t *testing.T) {
	b := sender(t, append(nodes(1), self))
	for port := range uint16(64) {
		if node := b.memberOf(t, 1000+port); node == self {
			t.Fatal("a packet went to the node that sent it")
		}
	}
	alone := sender(t, []netip.Addr{self})
	f := world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") })
	alone.Expect(t, alone.Objects.AliothFromPod, []world.Case{
		{Name: "no other member", Device: alone.PodA, In: f.Bytes(), Verdict: world.ActShot, Counts: world.One("from_pod/no_member")},
	})
}

// A packet over a member is the pod's packet, but for its Ethernet addresses.
func TestPacket_OverMember_Unchanged(t *testing.T) {
	b := sender(t, nodes(1))
	for name, f := range map[string]wire.Frame{
		"IPv4": world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") }),
		"IPv6": world.FromA6(func(f *wire.Frame) { f.Dst = wire.IP("fd10:0:0:1::99") }),
		"a first fragment": world.FromA(func(f *wire.Frame) {
			f.Dst, f.Fragment, f.L4 = wire.IP("10.0.1.99"), &wire.Fragment{More: true}, wire.UDP{Sport: 1, Dport: 2, Payload: make([]byte, 64)}
		}),
		"a later fragment": world.FromA(func(f *wire.Frame) {
			f.Dst, f.Fragment, f.L4 = wire.IP("10.0.1.99"), &wire.Fragment{Offset: 9}, wire.Raw{Proto: state.ProtoUDP, Data: []byte("the rest")}
		}),
	} {
		in := f.Bytes()
		verdict, out := b.once(t, b.Objects.AliothFromPod, b.PodA, in)
		if verdict != world.ActRedirect {
			t.Errorf("%s: verdict %d", name, verdict)
			continue
		}
		if vni := binary.BigEndian.Uint32(out[46:]) >> 8; vni != world.VNIRed {
			t.Errorf("%s: VNI %d", name, vni)
		}
		if _, _, inner := hopOf(t, out); string(inner[12:]) != string(in[12:]) {
			t.Errorf("%s: inner packet is\n%x, want\n%x", name, inner[12:], in[12:])
		}
	}
}
