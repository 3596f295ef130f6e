// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
)

// Datapath implements attachment.Datapath by passes, which follow the journal.
type Datapath struct {
	progress *Progress
	kernel   *Kernel
	kinds    attach.Catalog
}

// NewDatapath returns one for attachments of these kinds.
func NewDatapath(progress *Progress, kernel *Kernel, kinds attach.Catalog) *Datapath {
	return &Datapath{progress: progress, kernel: kernel, kinds: kinds}
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

// Check implements attachment.Datapath.
func (d *Datapath) Check(rec journal.Record) error {
	return d.kernel.check(plan.Programmed(rec, d.kinds[rec.Kind].Hook))
}

// Ready implements attachment.Datapath.
func (d *Datapath) Ready() error { return d.progress.Ready() }
