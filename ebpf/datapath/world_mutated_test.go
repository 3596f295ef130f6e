// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Environment of TestMutatedFramesKeepTheRules: how long it makes frames, and
// the seed of its random numbers.
const (
	mutateFor  = "ALIOTH_MUTATE"
	mutateSeed = "ALIOTH_MUTATE_SEED"
)

// Kinds of program that frames are run through.
const (
	kindPod = iota
	kindStack
	kindTunnel
	kindUnderlay
	kindFragment
	kinds
)

// kindOf tells which program it is; what is none of ours leads to one behind the
// tunnel.
func kindOf(t *testing.T, p *ebpf.Program) int {
	t.Helper()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	for kind, name := range map[int]string{
		kindPod: "alioth_from_pod", kindStack: "alioth_to_pod", kindUnderlay: "alioth_from_und", kindFragment: "alioth_fragment",
	} {
		if strings.HasPrefix(info.Name, name) {
			return kind
		}
	}
	return kindTunnel
}

// seeds are the frames that tests have run, by the kind of program that they
// were for.
type seeds struct {
	frames [kinds][][]byte
	seen   map[string]bool
	closed bool
}

// corpus is filled by all tests of this package that run before its reader.
var corpus = seeds{seen: map[string]bool{}}

func (s *seeds) add(t *testing.T, p *ebpf.Program, in []byte) {
	t.Helper()
	if s.closed || s.seen[string(in)] {
		return
	}
	s.seen[string(in)] = true
	kind := kindOf(t, p)
	s.frames[kind] = append(s.frames[kind], slices.Clone(in))
}

// tabled returns the frames of the verdict tables. Those that have not been run
// yet, when this test is run alone, are run now.
func tabled(t *testing.T) [kinds][][]byte {
	t.Helper()
	for kind, tables := range [kinds][]func(*testing.T){
		kindPod: {
			TestPacketsInsideAVPCAreForwarded, TestOddPacketsInsideAVPC, TestOddPacketsAtTheDoor,
			TestNeighbourSolicitationIsAnsweredWithTheVirtualMAC, TestASenderIsToldHowLargeItsPacketsMayBe,
			TestASharedServiceIsReachedFromOverlappingVPCs, TestAServiceIsReachedInItsVPCOnly, TestAPodReachesItselfByItsService,
			TestWhoAsksAServiceWithoutBackendsIsRefusedAtOnce, TestErrorsAboutAServicesFlowFindTheirFlow,
			TestFragmentsGoToAServiceAndBack, TestFragmentsGoToAServiceOfTheVPCAndBack, TestAServiceLeadsOutsideAsTheVPCsEgressDoes,
			TestFragmentsGoOutsideByAServiceAndBack,
		},
		kindStack:    {TestOnlyTheShadowIsReachedFromTheHostsStack},
		kindTunnel:   {TestOnlyKnownNodesPutPacketsIntoAVPC},
		kindUnderlay: {TestOuterHeadersArePoppedFromUsualPackets},
		kindFragment: {TestWhatDoesNotFitOverIPv6IsMadeTwoFragments},
	} {
		if len(corpus.frames[kind]) > 0 {
			continue
		}
		for _, table := range tables {
			t.Run("seeds", table)
		}
	}
	corpus.closed = true
	return corpus.frames
}

// mutator makes frames that nobody has thought of.
type mutator struct {
	*rand.Rand
	frames [kinds][][]byte
	addrs  []netip.Addr
	macs   []state.MAC
}

// frame returns a mutated one for a kind of program.
func (m *mutator) frame(kind int) []byte {
	from := kind
	if m.IntN(20) == 0 {
		from = m.IntN(kinds)
	}
	b := slices.Clone(m.frames[from][m.IntN(len(m.frames[from]))])
	for range m.IntN(4) {
		b = m.change(b)
	}
	return runnable(b)
}

// runnable brings a frame to a length that the kernel's test run takes: it wants
// whole headers of what the Ethernet header says.
func runnable(b []byte) []byte {
	least := 15
	if len(b) >= 14 {
		switch binary.BigEndian.Uint16(b[12:]) {
		case 0x0800:
			least = 34
		case 0x86dd:
			least = 54
		}
	}
	if len(b) < least {
		return runnable(append(b, make([]byte, least-len(b))...))
	}
	return b[:min(len(b), 1600)]
}

// interesting values for a byte: flags, lengths, protocols, types.
var interesting = []byte{0, 1, 2, 4, 6, 8, 17, 43, 44, 47, 50, 51, 58, 60, 69, 70, 79, 96, 127, 128, 132, 134, 135, 136, 137, 255}

func (m *mutator) change(b []byte) []byte {
	if len(b) < 15 {
		return append(b, make([]byte, 15)...)
	}
	// Most of what decides stands in front.
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
		binary.BigEndian.PutUint16(b[min(at, len(b)-2):], []uint16{0, 1, 53, 80, 443, 1000, 5353, 8080, programs.DefaultTunnelPort, 0x2000, 0x4000, 0x1fff, 0xffff}[m.IntN(13)])
	case 7: // the rest of another frame
		other := m.frames[m.IntN(kinds)]
		tail := other[m.IntN(len(other))]
		b = append(b[:at:at], tail[min(at, len(tail)):]...)
	case 8: // something more in between
		b = slices.Insert(b, at, make([]byte, 4*(1+m.IntN(5)))...)
	}
	return b
}

// fragmentMark is what a packet between the two devices has: its VNI, or as a clone
// the length of the first fragment.
func (m *mutator) fragmentMark(vni uint32) uint32 {
	if m.IntN(3) == 0 {
		return markSecond | uint32(m.IntN(1600))
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
				checked(b)
			}
		case at == 0x86dd && a.Is6() && b[20] != 58: // not neighbour discovery
			copy(b[22:38], a.AsSlice())
		}
	}
	return b
}

// mutations says how long frames are to be made, and from which seed.
func mutations(t *testing.T) (duration time.Duration, seed uint64) {
	t.Helper()
	duration, seed = 2*time.Second, uint64(time.Now().UnixNano())
	if text := os.Getenv(mutateFor); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv(mutateSeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d repeats this, after the same tests", mutateSeed, seed)
	return duration, seed
}

// TestMutatedFramesKeepTheRules runs the frames of all tables, and then mutated
// ones, through every program, and holds each against rules that hold whatever
// the frame is. `make test` lets it make frames for ten seconds, `make soak` for minutes. It stands in the
// package's last file, so that the tables have run.
func TestMutatedFramesKeepTheRules(t *testing.T) {
	duration, seed := mutations(t)
	m := &mutator{Rand: rand.New(rand.NewPCG(seed, 0)), frames: tabled(t)}
	r := newRules(t)
	m.addrs, m.macs = r.addrs(), r.macs()
	for kind, frames := range m.frames {
		if len(frames) == 0 {
			t.Fatalf("no table has frames for programs of kind %d", kind)
		}
		for _, b := range frames {
			for _, at := range r.places[kind] {
				ctx := bpf.Context{}
				if kind == kindFragment {
					ctx.Mark = at.vni
				}
				r.try(t, at, b, ctx)
			}
		}
	}
	var frames int
	for end := time.Now().Add(duration); time.Now().Before(end) && !t.Failed(); frames++ {
		kind := m.IntN(kinds)
		at := r.places[kind][m.IntN(len(r.places[kind]))]
		b, ctx := m.frame(kind), bpf.Context{}
		if owner, ok := r.owner[at.device]; ok && kind == kindPod && m.IntN(8) != 0 {
			b = honest(b, owner)
		}
		if kind == kindFragment {
			ctx.Mark = m.fragmentMark(at.vni)
		} else if m.IntN(8) == 0 {
			ctx.Mark = []uint32{state.MarkShared, state.MarkEgress, state.MarkNode, 0x4000}[m.IntN(4)]
		}
		if m.IntN(16) == 0 {
			ctx.GSOSize, ctx.GSOSegs = uint32(1+m.IntN(1600)), 2
		}
		r.try(t, at, b, ctx)
	}
	r.checkSum(t)
	if r.seen["translated"] == 0 {
		t.Error("no service of a VPC has translated anything")
	}
	t.Logf("%d mutated frames; what became of all: %v", frames, r.seen)
}
