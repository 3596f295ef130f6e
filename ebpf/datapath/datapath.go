// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// Datapath is the loaded datapath of a node. Its methods may be called
// concurrently.
type Datapath struct {
	cfg     programs.Config
	log     *slog.Logger
	objects *bpf.AliothObjects
	reader  *Reader
	kernel  *tables.Kernel
	links   *links
	filters *filters
	// flows are deleted while mu is held.
	flows connections.Tables

	// trials is held during a trial.
	trials sync.Mutex
	// trial is made by the first trial, and reused.
	trial *trial.Trial

	// beside is held by readers of the kernel that run beside Apply.
	beside sync.Mutex

	mu sync.Mutex
	// have are the rows of the maps, or nil if they have to be read first.
	have *tables.Rows
	// applied are the parts that have was compiled from; empty without have.
	applied state.Parts
	// recheck reports that neither have nor the pins are reliable.
	recheck bool
	// repin reports that the pins are not.
	repin bool
	// unpruned reports that flows may have lost their backend since they were last
	// pruned.
	unpruned bool
	// servicesChanged reports that services have changed since ServicesChanged was
	// called.
	servicesChanged bool
	// repaired is the next result of Repaired.
	repaired []Repair
	// promote replaces the node's maps and programs by the new ones. It is set while
	// the pin directory belongs to an incompatible version, whose programs serve until
	// the first Apply has filled the new maps.
	promote func() error
}

// Open makes loaded programs the node's datapath, which holds them from then on. It adopts the
// maps pinned by an earlier process. It replaces the programs on every interface and link that
// has a program, without ever detaching it. It attaches the programs of the tunnel and of the
// sockets. Maps pinned by an incompatible version stay in use until the first Apply has filled
// new ones. Open looks up devices in the network namespace of its caller. If it fails it closes
// the programs.
func Open(loaded *programs.Loaded, log *slog.Logger) (*Datapath, error) {
	defer loaded.Adopted.Close()
	cfg, objects := loaded.Config, loaded.Objects
	filters, err := newFilters(objects, log)
	if err != nil {
		objects.Close()
		return nil, err
	}
	maps := bpf.Pinnable(objects)
	flows := connections.Tables{Connections: connections.New(maps), Judged: connections.NewJudged(maps)}
	d := &Datapath{
		cfg:     cfg,
		log:     log,
		objects: objects,
		reader:  &Reader{maps},
		kernel:  &tables.Kernel{Maps: maps, Programs: filters, Flows: flows},
		links:   newLinks(cfg.PinDir, objects, filters, log),
		filters: filters,
		flows:   flows,
		// An earlier process may have ended in between.
		unpruned: true, servicesChanged: true,
	}
	if err := d.takeOver(loaded); err != nil {
		filters.close()
		d.links.close()
		objects.Close()
		return nil, err
	}
	return d, nil
}

// takeOver promotes the loaded objects now, or prepares the promotion for when their
// maps are filled.
func (d *Datapath) takeOver(loaded *programs.Loaded) error {
	adopted := maps.Clone(loaded.Adopted)
	promote := func() error {
		if err := pinMaps(d.cfg.PinDir, d.reader.maps, adopted, d.log); err != nil {
			return err
		}
		return d.attachAll()
	}
	if loaded.Foreign != "" {
		d.log.Warn("pinned maps do not fit; replacing them with the first state", "reason", loaded.Foreign)
		d.promote = promote
		return nil
	}
	d.log.Info("datapath opened", "pin_dir", d.cfg.PinDir, "adopted_maps", len(adopted))
	return promote()
}

// attachAll attaches the current programs to every hook that has a program.
func (d *Datapath) attachAll() error {
	if err := d.links.retire(); err != nil {
		return err
	}
	if err := d.filters.replaceAll(); err != nil {
		return err
	}
	_, err := d.links.upsertAll(d.cfg)
	return err
}

// Close releases the process's hold on the datapath, which goes on working.
func (d *Datapath) Close() error {
	d.trials.Lock()
	defer d.trials.Unlock()
	d.beside.Lock()
	defer d.beside.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.trial != nil {
		d.trial.Close()
		d.trial = nil
	}
	d.filters.close()
	d.links.close()
	if err := d.objects.Close(); err != nil {
		return fmt.Errorf("close datapath: %w", err)
	}
	return nil
}

// Apply does the same as ApplyParts for a State that is not kept in parts.
func (d *Datapath) Apply(s state.State) error { return d.ApplyParts(s.Parts()) }

// ApplyParts makes the datapath equal to all parts together. It is idempotent, and safe
// to repeat after an error. A contradiction in the parts is reported as ErrInvalidState
// before any change; failed attachments to interfaces are reported as AttachErrors
// after everything else is done.
func (d *Datapath) ApplyParts(p state.Parts) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := p.Since(d.applied)
	if err := p.Validate(fresh, d.applied); err != nil {
		return err
	}
	believed := d.have
	if err := d.restorePins(); err != nil {
		return err
	}
	have, gone, err := d.current()
	if err != nil {
		return err
	}
	if have == believed {
		fresh.Add(gone...)
		return d.applySome(p, fresh)
	}
	return d.applyAll(p, have, believed)
}

// applySome applies the changed parts. All others are applied already, and no row
// belongs to two parts.
func (d *Datapath) applySome(p state.Parts, n state.Changes) error {
	if len(n.VNIs)+len(n.Listed) == 0 && !d.unpruned {
		return nil
	}
	all, want := d.have, tables.Compile(p, n.VNIs, n.Is, d.have)
	have := all.Only(tables.Compile(d.applied, n.VNIs, n.Was, all), want)
	failed, err := d.change(tables.Plan(have, want), have.EndsFlows(want))
	if err != nil {
		return errors.Join(err, failed)
	}
	all.Swap(have, want)
	return d.settle(p, all, failed)
}

// applyAll makes the kernel's state equal to all parts. believed are the rows that it
// should have had, or nil; differences from those are repairs.
func (d *Datapath) applyAll(p state.Parts, have, believed *tables.Rows) error {
	if believed == nil {
		believed = have
	}
	all := p.Everything()
	want := tables.Compile(p, all.VNIs, all.Is, believed)
	plan := tables.Plan(have, want)
	var harm []tables.Operation
	if have != believed {
		harm = unexpected(plan, tables.Plan(believed, want))
	}
	failed, err := d.change(plan, believed.EndsFlows(want))
	if err != nil {
		return errors.Join(err, failed)
	}
	d.repaired = append(d.repaired, repairs(harm, failed)...)
	return d.settle(p, want, failed)
}

// change takes steps; ends reports that flows may lose their backend by them. The
// content of the maps is unknown from then on, until settle sets it.
func (d *Datapath) change(plan []tables.Operation, ends bool) (failed, err error) {
	d.have, d.applied = nil, state.Parts{}
	d.unpruned, d.servicesChanged = d.unpruned || ends, d.servicesChanged || ends
	if err := d.promoteAfter(&plan); err != nil {
		return nil, err
	}
	return d.execute(plan)
}

// settle stores the content of the maps, unless a device has failed, and deletes the
// flows that the change has ended.
func (d *Datapath) settle(p state.Parts, have *tables.Rows, failed error) error {
	if err := d.prune(have); err != nil {
		return errors.Join(err, failed)
	}
	if failed == nil {
		d.have, d.applied = have, p
	}
	return failed
}

// Recheck makes the next Apply compare everything with the kernel: pins, links, the programs on
// every device and the rows of the maps. So Apply repairs manual changes. Without Recheck, Apply
// uses its memory of the written rows and, while a device exists, of the device's attachments.
func (d *Datapath) Recheck() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recheck = true
}

// RecheckPins makes the next Apply check pins and links alone, and repair them as after
// Recheck. Survey compares the content of maps and devices.
func (d *Datapath) RecheckPins() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.repin = true
}

// current returns the content of the maps and devices, and the VNIs of the devices that
// have vanished since the last call. The result is d.have, or has been read now.
func (d *Datapath) current() (have *tables.Rows, gone []uint32, err error) {
	// Before any list is read: devices that vanish later are reported by the next call.
	vanished, lost, err := d.filters.goneDevices()
	if err != nil {
		return nil, nil, err
	}
	if d.have != nil {
		for ifindex := range vanished {
			if vni, known := d.have.Forget(ifindex); known {
				gone = append(gone, vni)
			}
		}
		if !d.recheck && !lost {
			return d.have, gone, nil
		}
	}
	d.recheck = true // until everything has been read
	if have, err = d.kernel.Read(); err != nil {
		return nil, nil, err
	}
	d.recheck = false
	return have, nil, nil
}

// prune deletes the flows without a backend, if there may be any.
func (d *Datapath) prune(left *tables.Rows) error {
	if !d.unpruned {
		return nil
	}
	now, err := MonotonicNow()
	if err != nil {
		return err
	}
	if err := d.flows.Connections.Prune(left, now); err != nil {
		return err
	}
	d.unpruned = false
	return nil
}

// promoteAfter fills the maps of a new layout before they replace the old ones, and
// returns the remaining steps.
func (d *Datapath) promoteAfter(plan *[]tables.Operation) error {
	if d.promote == nil {
		return nil
	}
	var attach []tables.Operation
	for _, op := range *plan {
		if _, ok := op.Attachment(); ok {
			attach = append(attach, op)
			continue
		}
		if err := d.kernel.Step(op); err != nil {
			return err
		}
	}
	if err := d.promote(); err != nil {
		return err
	}
	d.promote = nil
	*plan = attach
	return nil
}

// execute takes the steps in their order. A failed attachment stops nothing, because
// its interface gets no traffic: these errors are returned apart, joined. A map that
// cannot be written stops everything, because later steps may rely on it.
func (d *Datapath) execute(plan []tables.Operation) (failed, err error) {
	var list []error
	for _, op := range plan {
		err := d.kernel.Step(op)
		var attach *AttachError
		if errors.As(err, &attach) {
			list = append(list, err)
			continue
		}
		if err != nil {
			return errors.Join(list...), err
		}
		d.log.Debug("applied", "operation", op)
	}
	return errors.Join(list...), nil
}
