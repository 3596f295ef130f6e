// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

// Loaded are programs with their maps, which tests use one after the other: the verifier takes
// longer over them than most tests do over everything else. In one thing they differ from the
// programs that Open loads: the map of constants is not frozen, so that the verifier finds them
// safe whatever the configuration is.
type Loaded struct{ *ebpf.Collection }

// spare has the programs that no test uses, by the size of their table of flows.
var spare = map[uint32][]Loaded{}

// constantsMap is the section of the configuration.
const constantsMap = ".rodata"

// OpenShared opens a datapath that is taken down with the test, as Open does where nothing is
// pinned, upon programs that may have been another test's. The rows that they leave in their maps
// are deleted before the next test gets the programs. After a failed test no other test gets them.
func OpenShared(t testing.TB, cfg programs.Config) *Datapath {
	t.Helper()
	cfg, err := cfg.WithDefaults()
	Must(t, err)
	Must(t, programs.PreparePinDir(cfg.PinDir))
	l, err := Take(cfg)
	Must(t, err)
	t.Cleanup(func() { l.HandOn(t, cfg.Connections) })
	objects, err := l.objects()
	Must(t, err)
	open, err := datapath.Open(&programs.Loaded{Config: cfg, Objects: objects}, testLog(t))
	if err != nil {
		t.Fatalf("open datapath: %v", err)
	}
	d := &Datapath{open, objects, cfg}
	takeDown(t, d)
	return d
}

// Take returns spare programs with the given configuration. It loads new ones if none are spare.
func Take(cfg programs.Config) (Loaded, error) {
	spec, err := programs.Specify(cfg)
	if err != nil {
		return Loaded{}, err
	}
	var l Loaded
	if left := spare[cfg.Connections]; len(left) > 0 {
		l, spare[cfg.Connections] = left[len(left)-1], left[:len(left)-1]
	} else if l, err = loadForAll(spec); err != nil {
		return Loaded{}, err
	}
	return l, l.configure(spec.Variables["alioth_config"])
}

// loadForAll loads the programs for every configuration.
func loadForAll(spec *ebpf.CollectionSpec) (Loaded, error) {
	section := spec.Maps[constantsMap].Copy()
	section.Name = "constants" // under its own the library would freeze it
	section.Flags |= unix.BPF_F_MMAPABLE
	constants, err := ebpf.NewMap(section)
	if err != nil {
		return Loaded{}, fmt.Errorf("make the map of constants: %w", err)
	}
	defer constants.Close()
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{constantsMap: constants},
	})
	if err != nil {
		return Loaded{}, fmt.Errorf("load programs: %+w", err)
	}
	return Loaded{collection}, nil
}

// configure writes the configuration among the constants.
func (l Loaded) configure(config *ebpf.VariableSpec) error {
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
func (l Loaded) objects() (*bpf.AliothObjects, error) {
	held := &ebpf.Collection{
		Programs: map[string]*ebpf.Program{}, Maps: map[string]*ebpf.Map{}, Variables: maps.Clone(l.Variables),
	}
	defer held.Close() // programs and maps that are not assigned
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

// HandOn makes programs that are attached nowhere any more spare, unless the test
// has failed.
func (l Loaded) HandOn(t testing.TB, connections uint32) {
	t.Helper()
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

// empty makes all maps as they were when they were Loaded, but the constants.
func (l Loaded) empty() error {
	// Programs that run at this moment have ended when the call returns.
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

// clearMap deletes the rows of a map, or makes them zero where they can't be deleted. Rows at
// sockets have ended with their sockets.
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
