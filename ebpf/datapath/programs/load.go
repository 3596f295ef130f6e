// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package programs loads the compiled programs of a node: it writes their configuration
// into them, and loads them on top of pinned maps.
package programs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// LayoutVersion is the version of the meaning of the maps' contents. If the pin
// directory has another version, the pinned maps are not adopted. Version 1 is the
// first; with version 2 interfaces have gateways.
const LayoutVersion = 2

// observing are the maps that no decision depends on for longer than a moment, and the map of
// affinities. Without affinities, clients get a backend once more. If the layout of such maps has
// changed, only they are replaced. Tables within a map keep their layout: a new layout needs a
// new name of the map.
var observing = []string{
	bpf.AffinitiesMap,
	bpf.CountersMap, bpf.DropCountersMap, bpf.DropsMap, "alioth_drop_gate", "alioth_icmp_gate", bpf.WaysMap, bpf.FragmentsMap,
	bpf.FlowsMap, "alioth_flow_gate", "alioth_flow_share", bpf.FlowNotesMap, "alioth_kubelets",
	bpf.MissesMap, "alioth_miss_gate", "alioth_miss_share", "alioth_role_gate", bpf.PolicyHitsMap,
}

// judgedPerConnection is the size of the table of judged flows, for each entry of the table of
// flows to services. With it a node has room for four times the limit of an interface per pod:
// a judged flow takes one entry, and a flow to a service two.
const judgedPerConnection = 2

// Loaded are programs with their maps, which the kernel has accepted and nothing runs.
type Loaded struct {
	// Config is their configuration, complete.
	Config  Config
	Objects *bpf.AliothObjects
	// Adopted are the maps of the programs that an earlier process has pinned.
	Adopted bpf.Maps
	// Foreign explains why the pinned maps do not fit, or is empty. If they do not, the
	// programs of another version keep running on those until new maps are filled.
	Foreign string
}

// Load loads the programs, on top of the pinned maps if these fit. It changes nothing on running
// programs, and takes the kernel long.
func Load(cfg Config) (*Loaded, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := PreparePinDir(cfg.PinDir); err != nil {
		return nil, err
	}
	spec, err := Specify(cfg)
	if err != nil {
		return nil, err
	}
	adopted, foreign, err := adopt(cfg.PinDir, spec)
	if err != nil {
		return nil, err
	}
	objects, err := load(spec, adopted)
	if err != nil {
		return nil, errors.Join(err, adopted.Close())
	}
	return &Loaded{Config: cfg, Objects: objects, Adopted: adopted, Foreign: foreign}, nil
}

// Try loads the programs on new maps without a pin, so it changes nothing of the node. The
// caller closes them.
func Try(cfg Config) (*bpf.AliothObjects, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	spec, err := Specify(cfg)
	if err != nil {
		return nil, err
	}
	return load(spec, bpf.Maps{})
}

// adopt opens the pinned maps. It takes all that decide anything or none, since half of
// an old state would be worse than none; foreign explains why it takes none.
func adopt(dir string, spec *ebpf.CollectionSpec) (adopted bpf.Maps, foreign string, err error) {
	adopted, foreign, err = openFitting(dir, spec)
	if err == nil && foreign == "" {
		foreign, err = checkVersion(adopted)
	}
	if err != nil || foreign != "" {
		adopted.Close()
		adopted = bpf.Maps{}
	}
	return adopted, foreign, err
}

// openFitting opens the pinned maps that fit. foreign explains why a map with influence on
// decisions does not fit.
func openFitting(dir string, spec *ebpf.CollectionSpec) (fitting bpf.Maps, foreign string, err error) {
	fitting = bpf.Maps{}
	for name, ms := range spec.Maps {
		if !strings.HasPrefix(name, bpf.Prefix) {
			continue
		}
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fitting, "", fmt.Errorf("open pinned map %s: %w", name, err)
		}
		if err := ms.Compatible(m); err != nil {
			m.Close()
			if !isObserving(name) {
				foreign = fmt.Sprintf("pinned map %s: %v", name, err)
			}
			continue
		}
		fitting[name] = m
	}
	return fitting, foreign, nil
}

func isObserving(name string) bool {
	return slices.Contains(observing, name)
}

// checkVersion explains why maps of another layout version cannot be adopted. Maps
// without any version are leftovers of an Open that did not finish.
func checkVersion(pinned bpf.Maps) (foreign string, err error) {
	layout, ok := pinned[bpf.LayoutMap]
	if !ok {
		if len(pinned) == 0 {
			return "", nil
		}
		return "pinned maps have no layout version", nil
	}
	var version uint32
	if err := layout.Lookup(uint32(0), &version); err != nil {
		return "", fmt.Errorf("read layout version: %w", err)
	}
	if version != LayoutVersion {
		return fmt.Sprintf("pinned maps have layout version %d, not %d", version, LayoutVersion), nil
	}
	return "", nil
}

// Specify returns the compiled programs and maps, adapted to the configuration.
func Specify(cfg Config) (*ebpf.CollectionSpec, error) {
	spec, err := bpf.LoadAlioth()
	if err != nil {
		return nil, fmt.Errorf("read compiled programs: %w", err)
	}
	spec.Maps[bpf.ConnectionsMap].MaxEntries = cfg.Connections
	spec.Maps[bpf.JudgedMap].MaxEntries = judgedPerConnection * cfg.Connections
	constants, err := cfg.constants()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables["alioth_config"].Set(constants); err != nil {
		return nil, fmt.Errorf("set constants of the programs: %w", err)
	}
	return spec, nil
}

// load loads the programs on top of the adopted maps.
func load(spec *ebpf.CollectionSpec, adopted bpf.Maps) (*bpf.AliothObjects, error) {
	collection, err := collect(spec, adopted)
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) {
		return nil, fmt.Errorf("load programs: %w:\n%s", err, strings.Join(verifier.Log, "\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("load programs: %w", err)
	}
	defer collection.Close() // closes the objects that are not in objects
	objects := &bpf.AliothObjects{}
	if err := collection.Assign(objects); err != nil {
		return nil, fmt.Errorf("load programs: %w", err)
	}
	return objects, nil
}

// collect loads the maps, and then the programs on all processors: the kernel verifies each of
// them on the processor that loads it, which takes half a second for all.
func collect(spec *ebpf.CollectionSpec, adopted bpf.Maps) (*ebpf.Collection, error) {
	all := spec.Copy()
	all.Programs = nil
	collection, err := ebpf.NewCollectionWithOptions(all, ebpf.CollectionOptions{MapReplacements: adopted})
	if err != nil {
		return nil, err
	}
	var group errgroup.Group
	shares := share(spec.Programs, runtime.GOMAXPROCS(0))
	loaded := make([]map[string]*ebpf.Program, len(shares))
	for i, programs := range shares {
		some := spec.Copy()
		some.Programs, some.Variables = programs, nil
		group.Go(func() (err error) {
			loaded[i], err = loadOn(some, collection.Maps)
			return err
		})
	}
	err = group.Wait()
	for _, programs := range loaded {
		maps.Copy(collection.Programs, programs)
	}
	if err != nil {
		collection.Close()
		return nil, err
	}
	return collection, nil
}

// loadOn loads programs on top of maps. The programs use no other maps.
func loadOn(spec *ebpf.CollectionSpec, on bpf.Maps) (map[string]*ebpf.Program, error) {
	collection, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: on})
	if err != nil {
		return nil, err
	}
	defer collection.Close()
	programs := collection.Programs
	collection.Programs = nil
	return programs, nil
}

// share divides programs into n shares of similar length.
func share(programs map[string]*ebpf.ProgramSpec, n int) []map[string]*ebpf.ProgramSpec {
	shares, lengths := make([]map[string]*ebpf.ProgramSpec, n), make([]int, n)
	longestFirst := func(a, b string) int {
		return cmp.Or(cmp.Compare(len(programs[b].Instructions), len(programs[a].Instructions)), strings.Compare(a, b))
	}
	for _, name := range slices.SortedFunc(maps.Keys(programs), longestFirst) {
		least := slices.Index(lengths, slices.Min(lengths))
		if shares[least] == nil {
			shares[least] = map[string]*ebpf.ProgramSpec{}
		}
		shares[least][name] = programs[name]
		lengths[least] += len(programs[name].Instructions)
	}
	return slices.DeleteFunc(shares, func(s map[string]*ebpf.ProgramSpec) bool { return s == nil })
}
