// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
)

// Datapath implements attachment.Datapath by passes, which follow the journal.
type Datapath struct {
	progress *Progress
	kernel   *Kernel
	cfg      plan.Config
	store    *store.Store
}

// NewDatapath returns one that makes plans with a configuration and from a store.
func NewDatapath(progress *Progress, kernel *Kernel, cfg plan.Config, s *store.Store) *Datapath {
	return &Datapath{progress: progress, kernel: kernel, cfg: cfg, store: s}
}

// Program implements attachment.Datapath.
func (d *Datapath) Program(ctx context.Context, rec journal.Record) error {
	return d.progress.settle(ctx, d.progress.Ask(), rec.Device.HostIfindex)
}

// Unprogram implements attachment.Datapath. Before the first pass of this process it
// need not wait: the rows of an earlier process lead to a device that is about to be
// deleted, and the first pass removes them.
func (d *Datapath) Unprogram(ctx context.Context, _ journal.Record) error {
	number := d.progress.Ask()
	if mtu, _ := d.progress.PodMTU(); mtu == 0 {
		return nil
	}
	return d.progress.settle(ctx, number, 0)
}

// ProgramSockets implements attachment.Datapath. A pass for a network without Services would
// change nothing; those to come make one.
func (d *Datapath) ProgramSockets(ctx context.Context, rec journal.Record) error {
	served := false
	d.store.View(func(tx store.ReadTx) { served = plan.IsServed(tx, d.cfg.Node, rec) })
	if !served {
		return nil
	}
	return d.progress.Programmed(ctx)
}

// UnprogramSockets implements attachment.Datapath.
func (d *Datapath) UnprogramSockets() { d.progress.Ask() }

// Check implements attachment.Datapath.
func (d *Datapath) Check(rec journal.Record) error {
	return d.kernel.check(plan.Programmed(rec, d.cfg.Kinds[rec.Kind].Hook))
}

// Ready implements attachment.Datapath.
func (d *Datapath) Ready() error { return d.progress.Ready() }
