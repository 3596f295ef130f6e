// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// layoutVersion is the version of the meaning of the maps' contents. If the pin
// directory has another version, the pinned maps are not adopted. Version 1 is the
// first; with version 2 interfaces have gateways.
const layoutVersion = 2

// observing are maps on whose contents no decision depends for longer than a moment,
// and that of affinities, without which clients get a backend once more. If their
// layout has changed, only they are replaced. Tables within a map keep their layout:
// another layout needs another name of the map.
var observing = []string{
	bpf.AffinitiesMap,
	bpf.CountersMap, bpf.DropCountersMap, bpf.DropsMap, "alioth_drop_gate", "alioth_icmp_gate", bpf.WaysMap, bpf.FragmentsMap,
	bpf.FlowsMap, "alioth_flow_gate", "alioth_flow_share", bpf.FlowNotesMap, "alioth_kubelets",
}

// adoption is the content of a pin directory that a new set of programs can use.
type adoption struct {
	maps bpf.Maps // pinned maps that fit
	// foreign explains why the pinned maps do not fit, or is nil; if it is not, the
	// programs keep running on those until new maps are filled.
	foreign string
}

func (a *adoption) close() {
	for _, m := range a.maps {
		m.Close()
	}
}

// adopt opens the pinned maps. It takes all that decide anything or none, since half of
// an old state would be worse than none.
func adopt(dir string, spec *ebpf.CollectionSpec) (a *adoption, err error) {
	a = &adoption{maps: bpf.Maps{}}
	for name, ms := range spec.Maps {
		if !strings.HasPrefix(name, bpf.Prefix) {
			continue
		}
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			a.close()
			return nil, fmt.Errorf("open pinned map %s: %w", name, err)
		}
		if err := ms.Compatible(m); err != nil {
			m.Close()
			if !isObserving(name) {
				a.foreign = fmt.Sprintf("pinned map %s: %v", name, err)
			}
			continue
		}
		a.maps[name] = m
	}
	if a.foreign == "" {
		if a.foreign, err = a.checkVersion(); err != nil {
			a.close()
			return nil, err
		}
	}
	if a.foreign != "" {
		a.close()
		a.maps = bpf.Maps{}
	}
	return a, nil
}

func isObserving(name string) bool {
	return slices.Contains(observing, name)
}

// checkVersion explains why maps of another layout version cannot be adopted. Maps
// without any version are leftovers of an Open that did not finish.
func (a *adoption) checkVersion() (foreign string, err error) {
	layout, ok := a.maps[bpf.LayoutMap]
	if !ok {
		if len(a.maps) == 0 {
			return "", nil
		}
		return "pinned maps have no layout version", nil
	}
	var version uint32
	if err := layout.Lookup(uint32(0), &version); err != nil {
		return "", fmt.Errorf("read layout version: %w", err)
	}
	if version != layoutVersion {
		return fmt.Sprintf("pinned maps have layout version %d, not %d", version, layoutVersion), nil
	}
	return "", nil
}

// specify returns the compiled programs and maps, adapted to the configuration.
func specify(cfg Config) (*ebpf.CollectionSpec, error) {
	spec, err := bpf.LoadAlioth()
	if err != nil {
		return nil, fmt.Errorf("read compiled programs: %w", err)
	}
	spec.Maps[bpf.ConnectionsMap].MaxEntries = cfg.Connections
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
func load(spec *ebpf.CollectionSpec, a *adoption) (*bpf.AliothObjects, error) {
	objects := &bpf.AliothObjects{}
	err := spec.LoadAndAssign(objects, &ebpf.CollectionOptions{MapReplacements: a.maps})
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) {
		return nil, fmt.Errorf("load programs: %w:\n%s", err, strings.Join(verifier.Log, "\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("load programs: %w", err)
	}
	return objects, nil
}

// pinMaps pins every map that is not pinned yet, over one of the same name if
// there is one.
func pinMaps(dir string, maps, adopted bpf.Maps, log *slog.Logger) error {
	for name, m := range maps {
		if _, ok := adopted[name]; ok || name == bpf.LayoutMap {
			continue
		}
		if err := pinOver(m, filepath.Join(dir, name)); err != nil {
			return err
		}
		log.Debug("pinned map", "map", name)
	}
	if _, ok := adopted[bpf.LayoutMap]; ok {
		return nil
	}
	// The version comes last: maps without it are not adopted.
	layout := maps[bpf.LayoutMap]
	if err := layout.Put(uint32(0), uint32(layoutVersion)); err != nil {
		return fmt.Errorf("write layout version: %w", err)
	}
	return pinOver(layout, filepath.Join(dir, bpf.LayoutMap))
}

// pinOver pins m at path in one step, whether or not something is there.
func pinOver(m *ebpf.Map, path string) error {
	fresh := path + "_new" // bpffs allows no dots
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove leftover pin: %w", err)
	}
	// A map with a pin of its own would move it, and fail if it is gone.
	unpinned, err := m.Clone()
	if err != nil {
		return fmt.Errorf("pin map: %w", err)
	}
	defer unpinned.Close()
	if err := unpinned.Pin(fresh); err != nil {
		return fmt.Errorf("pin map: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("pin map: %w", err)
	}
	return nil
}
