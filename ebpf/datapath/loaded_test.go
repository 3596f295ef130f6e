// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// loaded are programs with their maps, which tests use one after the other: the
// verifier takes longer over them than most tests do over everything else. In one
// thing they differ from those that Open loads: the map of constants is not frozen,
// so that the verifier finds them safe whatever the configuration is.
type loaded struct{ *ebpf.Collection }

// spare are those that no test uses, by the size of their table of flows.
var spare = map[uint32][]loaded{}

// constantsMap is the section of the configuration.
const constantsMap = ".rodata"

// openLoaded opens a datapath that is taken down with the test, as Open does where
// nothing is pinned, upon programs that may have been another test's. What they
// leave in their maps is deleted before the next test gets them; after a failed
// test none does.
func openLoaded(t *testing.T, cfg programs.Config) *opened {
	t.Helper()
	cfg, err := cfg.WithDefaults()
	Must(t, err)
	Must(t, programs.PreparePinDir(cfg.PinDir))
	l, err := take(cfg)
	Must(t, err)
	t.Cleanup(func() { l.handOn(t, cfg.Connections) })
	objects, err := l.objects()
	Must(t, err)
	open, err := Open(&programs.Loaded{Config: cfg, Objects: objects}, testLog(t))
	if err != nil {
		t.Fatalf("open datapath: %v", err)
	}
	d := &opened{open, objects, cfg}
	takeDown(t, d)
	return d
}

// take returns spare programs, newly loaded ones when there are none, with the
// given configuration.
func take(cfg programs.Config) (loaded, error) {
	spec, err := programs.Specify(cfg)
	if err != nil {
		return loaded{}, err
	}
	var l loaded
	if left := spare[cfg.Connections]; len(left) > 0 {
		l, spare[cfg.Connections] = left[len(left)-1], left[:len(left)-1]
	} else if l, err = loadForAll(spec); err != nil {
		return loaded{}, err
	}
	return l, l.configure(spec.Variables["alioth_config"])
}

// loadForAll loads the programs for every configuration.
func loadForAll(spec *ebpf.CollectionSpec) (loaded, error) {
	section := spec.Maps[constantsMap].Copy()
	section.Name = "constants" // under its own the library would freeze it
	section.Flags |= unix.BPF_F_MMAPABLE
	constants, err := ebpf.NewMap(section)
	if err != nil {
		return loaded{}, fmt.Errorf("make the map of constants: %w", err)
	}
	defer constants.Close()
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{constantsMap: constants},
	})
	if err != nil {
		return loaded{}, fmt.Errorf("load programs: %+w", err)
	}
	return loaded{collection}, nil
}

// configure writes the configuration among the constants.
func (l loaded) configure(config *ebpf.VariableSpec) error {
	raw, err := l.Maps[constantsMap].LookupBytes(uint32(0))
	if err != nil {
		return fmt.Errorf("read constants: %w", err)
	}
	copy(raw[config.Offset:], config.Value)
	if err := l.Maps[constantsMap].Put(uint32(0), raw); err != nil {
		return fmt.Errorf("write constants: %w", err)
	}
	return nil
}

// objects returns the programs and maps for a datapath to hold and close.
func (l loaded) objects() (*bpf.AliothObjects, error) {
	held := &ebpf.Collection{
		Programs: map[string]*ebpf.Program{}, Maps: map[string]*ebpf.Map{}, Variables: maps.Clone(l.Variables),
	}
	defer held.Close() // of what is not assigned
	var err error
	for name, p := range l.Programs {
		if held.Programs[name], err = p.Clone(); err != nil {
			return nil, err
		}
	}
	for name, m := range l.Maps {
		if held.Maps[name], err = m.Clone(); err != nil {
			return nil, err
		}
	}
	objects := &bpf.AliothObjects{}
	return objects, held.Assign(objects)
}

// handOn makes programs that are attached nowhere any more spare, unless the test
// has failed.
func (l loaded) handOn(t *testing.T, connections uint32) {
	if t.Failed() {
		l.Close()
		return
	}
	if err := l.empty(); err != nil {
		l.Close()
		t.Errorf("empty the maps for the next test: %v", err)
		return
	}
	spare[connections] = append(spare[connections], l)
}

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL of linux/membarrier.h, which waits for a
// grace period of RCU.
const membarrierGlobal = 1

// empty makes all maps as they were when they were loaded, but the constants.
func (l loaded) empty() error {
	// Whoever runs the programs at this moment has done so when it returns.
	if _, _, failed := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); failed != 0 {
		return fmt.Errorf("wait for running programs: %w", failed)
	}
	for name, m := range l.Maps {
		if name == constantsMap {
			continue
		}
		if err := clearMap(m); err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
	}
	return nil
}

// clearMap deletes the rows of a map, or makes them zero where they can't be. What
// is stored at sockets has ended with those.
func clearMap(m *ebpf.Map) error {
	switch m.Type() {
	case ebpf.SkStorage:
		return nil
	case ebpf.RingBuf:
		return drain(m)
	case ebpf.Array, ebpf.PerCPUArray:
		return zero(m)
	default:
		return bpf.Empty(m)
	}
}

func zero(m *ebpf.Map) error {
	var value any = make([]byte, m.ValueSize())
	if m.Type() == ebpf.PerCPUArray {
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return err
		}
		values := make([][]byte, cpus)
		for i := range values {
			values[i] = make([]byte, m.ValueSize())
		}
		value = values
	}
	for i := range m.MaxEntries() {
		if err := m.Put(i, value); err != nil {
			return err
		}
	}
	return nil
}

func drain(m *ebpf.Map) error {
	reader, err := ringbuf.NewReader(m)
	if err != nil {
		return err
	}
	defer reader.Close()
	reader.SetDeadline(time.Unix(1, 0)) // nothing more will come
	for {
		_, err := reader.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// leftovers are the rows of a map that are not as in a map newly made.
func leftovers(t *testing.T, m *ebpf.Map) (rows int) {
	t.Helper()
	switch m.Type() {
	case ebpf.SkStorage:
		return 0
	case ebpf.RingBuf:
		reader, err := ringbuf.NewReader(m)
		Must(t, err)
		defer reader.Close()
		return reader.AvailableBytes()
	}
	array := m.Type() == ebpf.Array || m.Type() == ebpf.PerCPUArray
	key, err := m.NextKeyBytes(nil)
	for ; err == nil && key != nil; key, err = m.NextKeyBytes(key) {
		value, err := m.LookupBytes(key)
		Must(t, err)
		if !array || slices.ContainsFunc(value, func(b byte) bool { return b != 0 }) {
			rows++
		}
	}
	Must(t, err)
	return rows
}

// unlikeNew returns the names of a datapath's maps that are not as newly made ones,
// but for the version of their layout.
func unlikeNew(t *testing.T, d *opened) (names []string) {
	t.Helper()
	for name, m := range bpf.Pinnable(d.objects) {
		if name != bpf.LayoutMap && leftovers(t, m) > 0 {
			names = append(names, name)
		}
	}
	var until uint64
	if Must(t, d.objects.AliothFlowsUntil.Get(&until)); until != 0 {
		names = append(names, "alioth_flows_until")
	}
	slices.Sort(names)
	return names
}

// soiled are maps of every type in which a test leaves something.
var soiled = []string{
	"alioth_addresses", "alioth_subnets", "alioth_conn_opened", bpf.ConnectionsMap, bpf.FragmentsMap,
	"alioth_counters", bpf.DropCountersMap, "alioth_drops", "alioth_drop_gate", "alioth_icmp_gate",
	"alioth_flows", "alioth_flow_gate", "alioth_flow_share", bpf.FlowNotesMap, "alioth_flows_until",
}

func programID(t *testing.T, p *ebpf.Program) ebpf.ProgramID {
	t.Helper()
	info, err := p.Info()
	Must(t, err)
	id, _ := info.ID()
	return id
}

func TestLoadedProgramsAreHandedOnEmpty(t *testing.T) {
	var used [2]ebpf.ProgramID
	t.Run("one test", func(t *testing.T) {
		w := newScaledWorld(t)
		w.watchFlows(t)
		for _, frame := range []frame{
			ask(udp{Sport: 1000, Dport: 53}), fromA(unchanged), fromA(func(f *frame) { f.Dst = Ip("10.0.1.99") }),
		} {
			run(t, w.objects.AliothFromPod, w.podA, frame.bytes())
		}
		Must(t, w.objects.AliothFragments.Put(bpf.AliothFollowKey{Ifindex: 1}, bpf.AliothFirstFragment{}))
		Must(t, w.objects.AliothIcmpGate.Put(uint32(1), uint64(1)))
		got := unlikeNew(t, w.opened)
		for _, name := range soiled {
			if !slices.Contains(got, name) {
				t.Errorf("the test leaves nothing in %s", name)
			}
		}
		used[0] = programID(t, w.objects.AliothFromPod)
	})
	t.Run("the next", func(t *testing.T) {
		w := newWorld(t)
		Must(t, w.Apply(state.State{}))
		if left := unlikeNew(t, w.opened); len(left) > 0 {
			t.Errorf("there is something of the test before in %v", left)
		}
		used[1] = programID(t, w.objects.AliothFromPod)
	})
	if used[0] != used[1] {
		t.Errorf("the first test had program %d, the next %d", used[0], used[1])
	}
}

// mostVerified is how many instructions the verifier may look at for one program,
// some of them on every way that leads to them. A starting daemon waits for it; the
// kernel gives up at a million.
const mostVerified = 100_000

func TestNoProgramTakesTheVerifierLong(t *testing.T) {
	inNetns(t)
	cfg, err := programs.Config{VXLANIfindex: 1, Connections: fewConnections}.WithDefaults()
	Must(t, err)
	l, err := take(cfg)
	Must(t, err)
	defer l.handOn(t, cfg.Connections)
	for name, p := range l.Programs {
		info, err := p.Info()
		Must(t, err)
		if n, ok := info.VerifiedInstructions(); !ok || n > mostVerified {
			t.Errorf("for %s the verifier looks at %d instructions (told: %v), more than %d; is there a function to make global?", name, n, ok, mostVerified)
		}
	}
}
