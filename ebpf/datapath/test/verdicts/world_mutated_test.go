// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdicts_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/rules"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// tabled returns the frames of the verdict tables. Tables that have not been run yet, when this
// test is run alone, are run now.
func tabled(t *testing.T) [world.Kinds][][]byte {
	t.Helper()
	for kind, tables := range [world.Kinds][]func(*testing.T){
		world.KindPod: {
			TestPacket_InsideVPC_Forwarded, TestOddPackets_InsideVPC_VerdictAsDocumented, TestOddPackets_LeavingVPC_VerdictAsDocumented,
			TestNeighbourSolicitation_Request_AnsweredWithVirtualMAC, TestTooBig_Packet_SenderToldMTU,
			TestSharedService_OverlappingVPCs_Reached, TestService_OtherVPC_NotReached, TestService_PodIsItsBackend_ReachesItself,
			TestService_NoBackend_RefusedAtOnce, TestICMPError_ServiceFlow_FindsFlow,
			TestFragments_SharedService_GoAndComeBack, TestFragments_VPCService_GoAndComeBack, TestServiceOutside_Flow_TranslatedLikeEgress,
			TestServiceOutside_Fragments_GoAndComeBack,
		},
		world.KindStack:    {TestToPod_FromHostStack_OnlyShadowReached},
		world.KindTunnel:   {TestTunnelPacket_UnknownNode_Dropped},
		world.KindUnderlay: {TestOuterHeaders_UsualPackets_Popped},
		world.KindFragment: {TestPacket_TooBigOverIPv6_TwoFragments},
	} {
		if len(world.Corpus.Frames[kind]) > 0 {
			continue
		}
		for _, table := range tables {
			t.Run("seeds", table)
		}
	}
	world.Corpus.Closed = true
	return world.Corpus.Frames
}

// mutator makes frames by random changes of frames that tests have run.
type mutator struct {
	*rand.Rand
	frames [world.Kinds][][]byte
	addrs  []netip.Addr
	macs   []state.MAC
}

// frame returns a mutated one for a kind of program.
func (m *mutator) frame(kind int) []byte {
	from := kind
	if m.IntN(20) == 0 {
		from = m.IntN(world.Kinds)
	}
	b := slices.Clone(m.frames[from][m.IntN(len(m.frames[from]))])
	for range m.IntN(4) {
		b = m.change(b)
	}
	return world.Runnable(b)
}

// interesting values for a byte: flags, lengths, protocols, types.
var interesting = []byte{0, 1, 2, 4, 6, 8, 17, 43, 44, 47, 50, 51, 58, 60, 69, 70, 79, 96, 127, 128, 132, 134, 135, 136, 137, 255}

func (m *mutator) change(b []byte) []byte {
	if len(b) < 15 {
		return append(b, make([]byte, 15)...)
	}
	// Most of the deciding bytes stand in front.
	at := m.IntN(min(len(b), 1+m.IntN(120)))
	switch m.IntN(9) {
	case 0:
		b[at] ^= 1 << m.IntN(8)
	case 1:
		b[at] = interesting[m.IntN(len(interesting))]
	case 2:
		b = b[:15+m.IntN(len(b)-14)]
	case 3:
		b = append(b, make([]byte, m.IntN(1500))...)
	case 4:
		addr := m.addrs[m.IntN(len(m.addrs))].AsSlice()
		places := []int{26, 30, 76, 80}
		if len(addr) == 16 {
			places = []int{22, 38, 72, 88}
		}
		if place := places[m.IntN(len(places))]; place+len(addr) <= len(b) {
			copy(b[place:], addr)
		}
	case 5:
		copy(b[6*m.IntN(2):], m.macs[m.IntN(len(m.macs))][:])
	case 6:
		binary.BigEndian.PutUint16(
			b[min(at, len(b)-2):],
			[]uint16{0, 1, 53, 80, 443, 1000, 5353, 8080, programs.DefaultTunnelPort, 0x2000, 0x4000, 0x1fff, 0xffff}[m.IntN(13)],
		)
	case 7: // the rest of another frame
		other := m.frames[m.IntN(world.Kinds)]
		tail := other[m.IntN(len(other))]
		b = append(b[:at:at], tail[min(at, len(tail)):]...)
	case 8: // something more in between
		b = slices.Insert(b, at, make([]byte, 4*(1+m.IntN(5)))...)
	}
	return b
}

// fragmentMark returns the mark of a packet between the two devices: its VNI, or for a clone the
// length of the first fragment.
func (m *mutator) fragmentMark(vni uint32) uint32 {
	if m.IntN(3) == 0 {
		return rules.MarkSecond | uint32(m.IntN(1600))
	}
	return vni
}

// honest gives a frame the sources that its interface may use: most others end
// as spoofed.
func honest(b []byte, owner state.Interface) []byte {
	copy(b[6:], owner.MAC[:])
	for _, a := range owner.Addrs {
		switch at := binary.BigEndian.Uint16(b[12:]); {
		case at == 0x0800 && a.Is4():
			copy(b[26:30], a.AsSlice())
			if size := int(b[14]&15) * 4; size >= 20 && 14+size <= len(b) {
				wire.Checked(b)
			}
		case at == 0x86dd && a.Is6() && b[20] != 58: // not neighbour discovery
			copy(b[22:38], a.AsSlice())
		}
	}
	return b
}

// TestPrograms_MutatedFrames_RulesHold runs the frames of all tables, and then mutated frames, through
// every program, and compares the results with rules that hold for any frame. `make test` lets it
// make frames for ten seconds, `make soak` for minutes. It stands in the package's last file, so
// that the tables have run.
func TestPrograms_MutatedFrames_RulesHold(t *testing.T) {
	duration, seed := world.Mutations(t)
	m := &mutator{Rand: rand.New(rand.NewPCG(seed, 0)), frames: tabled(t)}
	r := rules.New(t)
	m.addrs, m.macs = r.Addrs(), r.Macs()
	for kind, frames := range m.frames {
		if len(frames) == 0 {
			t.Fatalf("no table has frames for programs of kind %d", kind)
		}
		for _, b := range frames {
			for _, at := range r.Places[kind] {
				ctx := bpf.Context{}
				if kind == world.KindFragment {
					ctx.Mark = at.VNI
				}
				r.Try(t, at, b, ctx)
			}
		}
	}
	var frames int
	for end := time.Now().Add(duration); time.Now().Before(end) && !t.Failed(); frames++ {
		kind := m.IntN(world.Kinds)
		at := r.Places[kind][m.IntN(len(r.Places[kind]))]
		b, ctx := m.frame(kind), bpf.Context{}
		if owner, ok := r.Owner[at.Device]; ok && kind == world.KindPod && m.IntN(8) != 0 {
			b = honest(b, owner)
		}
		if kind == world.KindFragment {
			ctx.Mark = m.fragmentMark(at.VNI)
		} else if m.IntN(8) == 0 {
			ctx.Mark = []uint32{state.MarkShared, state.MarkEgress, state.MarkNode, 0x4000}[m.IntN(4)]
		}
		if m.IntN(16) == 0 {
			ctx.GSOSize, ctx.GSOSegs = uint32(1+m.IntN(1600)), 2
		}
		r.Try(t, at, b, ctx)
	}
	r.CheckSum(t)
	if r.Seen["translated"] == 0 {
		t.Error("no service of a VPC has translated anything")
	}
	t.Logf("%d mutated frames; what became of all: %v", frames, r.Seen)
}
