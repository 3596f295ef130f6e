// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// leftovers returns the rows of a map that are not as in a map newly made.
func leftovers(t *testing.T, m *ebpf.Map) (rows int) {
	t.Helper()
	switch m.Type() {
	case ebpf.SkStorage:
		return 0
	case ebpf.RingBuf:
		reader, err := ringbuf.NewReader(m)
		bpftest.Must(t, err)
		defer reader.Close()
		return reader.AvailableBytes()
	}
	array := m.Type() == ebpf.Array || m.Type() == ebpf.PerCPUArray
	key, err := m.NextKeyBytes(nil)
	for ; err == nil && key != nil; key, err = m.NextKeyBytes(key) {
		value, err := m.LookupBytes(key)
		bpftest.Must(t, err)
		if !array || slices.ContainsFunc(value, func(b byte) bool { return b != 0 }) {
			rows++
		}
	}
	bpftest.Must(t, err)
	return rows
}

// unlikeNew returns the names of a datapath's maps that are not as newly made ones,
// but for the version of their layout.
func unlikeNew(t *testing.T, d *bpftest.Datapath) (names []string) {
	t.Helper()
	for name, m := range bpf.Pinnable(d.Objects) {
		if name != bpf.LayoutMap && leftovers(t, m) > 0 {
			names = append(names, name)
		}
	}
	var until uint64
	if bpftest.Must(t, d.Objects.AliothFlowsUntil.Get(&until)); until != 0 {
		names = append(names, "alioth_flows_until")
	}
	slices.Sort(names)
	return names
}

// soiled are maps of every type where a test leaves something.
var soiled = []string{
	"alioth_addresses", "alioth_subnets", "alioth_conn_opened", bpf.ConnectionsMap, bpf.FragmentsMap,
	"alioth_counters", bpf.DropCountersMap, "alioth_drops", "alioth_drop_gate", "alioth_icmp_gate",
	"alioth_flows", "alioth_flow_gate", "alioth_flow_share", bpf.FlowNotesMap, "alioth_flows_until",
}

func programID(t *testing.T, p *ebpf.Program) ebpf.ProgramID {
	t.Helper()
	info, err := p.Info()
	bpftest.Must(t, err)
	id, _ := info.ID()
	return id
}

func TestLoadedPrograms_HandedOn_MapsEmpty(t *testing.T) {
	var used [2]ebpf.ProgramID
	t.Run("one test", func(t *testing.T) {
		w := world.NewScaled(t)
		w.WatchFlows(t)
		for _, frame := range []wire.Frame{
			world.Ask(wire.UDP{Sport: 1000, Dport: 53}), world.FromA(world.Unchanged), world.FromA(func(f *wire.Frame) { f.Dst = wire.IP("10.0.1.99") }),
		} {
			world.Run(t, w.Objects.AliothFromPod, w.PodA, frame.Bytes())
		}
		bpftest.Must(t, w.Objects.AliothFragments.Put(bpf.AliothFollowKey{Ifindex: 1}, bpf.AliothFirstFragment{}))
		bpftest.Must(t, w.Objects.AliothIcmpGate.Put(uint32(1), uint64(1)))
		got := unlikeNew(t, w.Datapath)
		for _, name := range soiled {
			if !slices.Contains(got, name) {
				t.Errorf("the test leaves nothing in %s", name)
			}
		}
		used[0] = programID(t, w.Objects.AliothFromPod)
	})
	t.Run("the next", func(t *testing.T) {
		w := world.New(t)
		bpftest.Must(t, w.Apply(state.State{}))
		if left := unlikeNew(t, w.Datapath); len(left) > 0 {
			t.Errorf("there is something of the test before in %v", left)
		}
		used[1] = programID(t, w.Objects.AliothFromPod)
	})
	if used[0] != used[1] {
		t.Errorf("the first test had program %d, the next %d", used[0], used[1])
	}
}

// mostVerified is the number of instructions that the verifier may look at for one program, some
// of them on every way that leads to them. A starting daemon waits for it; the kernel gives up at
// a million.
const mostVerified = 100_000

func TestPrograms_Verified_BelowInstructionBound(t *testing.T) {
	bpftest.InNamespace(t)
	cfg, err := programs.Config{VXLANIfindex: 1, Connections: bpftest.Connections}.WithDefaults()
	bpftest.Must(t, err)
	l, err := bpftest.Take(cfg)
	bpftest.Must(t, err)
	defer l.HandOn(t, cfg.Connections)
	for name, p := range l.Programs {
		info, err := p.Info()
		bpftest.Must(t, err)
		if n, ok := info.VerifiedInstructions(); !ok || n > mostVerified {
			t.Errorf("for %s the verifier looks at %d instructions (told: %v), more than %d; is there a function to make global?", name, n, ok, mostVerified)
		}
	}
}
