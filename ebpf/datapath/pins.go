// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

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
	if err := layout.Put(uint32(0), uint32(programs.LayoutVersion)); err != nil {
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
