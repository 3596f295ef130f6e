// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
)

// Kinds of Repair.
const (
	// RepairPin is the pin of a map.
	RepairPin = "map_pin"
	// RepairLink is a pinned link with its program.
	RepairLink = "link"
	// RepairProgram is a program on an interface.
	RepairProgram = "program"
	// RepairMap is the content of a map.
	RepairMap = "map"
)

// Repair is an object that differed from the result of Apply, and was repaired.
type Repair struct {
	Kind string
	// Detail describes the object, for users.
	Detail string
}

// Repaired returns the repairs since the last call.
func (d *Datapath) Repaired() []Repair {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.repaired
	d.repaired = nil
	return list
}

// restorePins checks pins and links when a recheck was requested. Until the objects are
// promoted, the pins belong to another version.
func (d *Datapath) restorePins() error {
	if !d.recheck && !d.repin || d.promote != nil {
		return nil
	}
	if err := programs.PreparePinDir(d.cfg.PinDir); err != nil {
		return err
	}
	if err := d.restoreMaps(); err != nil {
		return err
	}
	changed, err := d.links.upsertAll(d.cfg)
	for _, name := range changed {
		d.repaired = append(d.repaired, Repair{RepairLink, "link " + name})
	}
	if err == nil {
		d.repin = false
	}
	return err
}

// restoreMaps pins the maps of the programs that are not pinned: other processes find
// them by the pins, and the next daemon adopts them.
func (d *Datapath) restoreMaps() error {
	var missing []string
	maps := bpf.Pinnable(d.objects)
	for name, m := range maps {
		pinned, err := isPinned(m, filepath.Join(d.cfg.PinDir, name))
		if err != nil {
			return err
		}
		if !pinned {
			missing = append(missing, name)
		}
	}
	slices.SortFunc(missing, layoutLast)
	for _, name := range missing {
		if err := pinOver(maps[name], filepath.Join(d.cfg.PinDir, name)); err != nil {
			return err
		}
		d.repaired = append(d.repaired, Repair{RepairPin, "pin of map " + name})
	}
	return nil
}

// layoutLast orders names, and puts the map with the version last: maps without the version are
// not adopted.
func layoutLast(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == bpf.LayoutMap || b != bpf.LayoutMap && a > b:
		return 1
	}
	return -1
}

// isPinned reports whether the map itself, and no other one, is pinned at path.
func isPinned(m *ebpf.Map, path string) (bool, error) {
	found, err := ebpf.LoadPinnedMap(path, &ebpf.LoadPinOptions{ReadOnly: true})
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open pinned map %s (remove what is there): %w", path, err)
	}
	defer found.Close()
	have, err := found.Info()
	if err != nil {
		return false, fmt.Errorf("read pinned map %s: %w", path, err)
	}
	want, err := m.Info()
	if err != nil {
		return false, fmt.Errorf("read map %s: %w", path, err)
	}
	haveID, _ := have.ID()
	wantID, _ := want.ID()
	return haveID == wantID, nil
}

// unexpected returns the steps of a plan that would not be needed without changes by
// others.
func unexpected(plan, expected []tables.Operation) []tables.Operation {
	known := map[tables.Operation]bool{}
	for _, op := range expected {
		known[op] = true
	}
	var list []tables.Operation
	for _, op := range plan {
		if !known[op] {
			list = append(list, op)
		}
	}
	return list
}

// repairs lists the repairs of the steps: each program, and each map. Programs on
// devices that failed are not listed.
func repairs(steps []tables.Operation, failed error) []Repair {
	var list []Repair
	rows := map[string]int{}
	var order []string
	for _, op := range steps {
		if a, ok := op.Attachment(); ok {
			if !attachFailed(failed, a) {
				list = append(list, Repair{RepairProgram, fmt.Sprintf("program %s on device %d", a.Program, a.Ifindex)})
			}
			continue
		}
		if rows[op.Table] == 0 {
			order = append(order, op.Table)
		}
		rows[op.Table]++
	}
	for _, t := range order {
		list = append(list, Repair{RepairMap, fmt.Sprintf("map %s, rows: %d", tables.MapOf(t), rows[t])})
	}
	return list
}

func attachFailed(failed error, a hook.Attachment) bool {
	joined, ok := failed.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	return slices.ContainsFunc(joined.Unwrap(), func(err error) bool {
		var attach *AttachError
		return errors.As(err, &attach) && attach.Ifindex == int(a.Ifindex) && attach.Program == string(a.Program)
	})
}
