// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
)

// pass programs the present plan.
func (l *Loop) pass(look Scope) (o outcome) {
	o.upTo = l.cfg.Progress.begin()
	// The result for the node's network counts, even if the pass fails afterwards.
	defer func() {
		made := l.cfg.Kernel.Made()
		o.mtu, o.devices = made.PodMTU, made.Devices
	}()
	var self *store.Node
	l.cfg.Store.View(func(tx store.ReadTx) {
		o.revision = tx.Revision()
		self = store.GetNode(tx, l.cfg.Plan.Node)
	})
	began := time.Now()
	if o.err = l.cfg.Kernel.Prepare(self, look.thorough()); o.err != nil {
		return o
	}
	l.cfg.Metrics.since(stepPrepare, began)
	began = time.Now()
	input, err := l.input(look)
	if err != nil {
		o.err = err
		return o
	}
	o.missing = missing(input.Records, input.Devices)
	var want plan.Wanted
	want, o.revision = l.planned.plan(l.cfg.Store, l.cfg.Sources.Tables, input)
	l.cfg.Metrics.since(stepPlan, began)
	o.lost, o.closed = want.Lost, want.ClosedPorts
	if o.failed, o.err = l.cfg.Kernel.Apply(want, look); o.err == nil {
		l.planned.programmed(want)
		o.roles = want.Roles
	}
	if o.failure() != nil {
		l.existing = existing{} // one of them may have gone
	}
	return o
}

// input is the input of a pass's plan. The journal is read before the devices: a device
// is made before its record is complete, so the devices of all complete records are
// among those read.
func (l *Loop) input(look Scope) (plan.Input, error) {
	input := plan.Input{Config: l.cfg.Plan, Records: l.cfg.Journal.Records(), NodePeer: l.cfg.Kernel.Made().NodePeer}
	input.Removed = l.cfg.Held.Removed() // read after the records, because removed records come from them
	input.Reserved = slices.Concat(l.cfg.Plan.Reserved, l.cfg.APIServers.Addresses())
	err := l.existing.look(l.cfg.Kernel, input.Records, look.thorough())
	input.Devices = l.existing.devices
	return input, err
}

// missing are the records without their device, which should exist on the node.
func missing(records []journal.Record, devices map[string]int) []journal.Record {
	var list []journal.Record
	for _, rec := range records {
		if _, ok := devices[rec.HostIfName]; !ok && rec.HostIfName != "" && rec.Phase == journal.PhaseDone {
			list = append(list, rec)
		}
	}
	return list
}

// planned is the result of the plans of passes.
type planned struct {
	// mu is held while a pass makes its plan.
	mu      sync.Mutex
	planner plan.Planner
	// vnis are the VNIs of the kernel and those that the pass is about to add.
	vnis map[uint32]bool
}

// plan makes the plan of a pass, and stores its VNIs before anything is programmed.
func (p *planned) plan(
	s *store.Store,
	tables func() *tablesync.Tables,
	input plan.Input,
) (want plan.Wanted, revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := tables()
	s.View(func(tx store.ReadTx) {
		revision = tx.Revision()
		input.Tables = tablesync.Common(before, tables())
		want = p.planner.Plan(tx, input)
	})
	maps.Copy(p.vnis, vnisOf(want))
	return want, revision
}

// programmed stores the VNIs that the kernel has.
func (p *planned) programmed(want plan.Wanted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vnis = vnisOf(want)
}

func vnisOf(want plan.Wanted) map[uint32]bool {
	vnis := map[uint32]bool{}
	for vni := range want.Datapath.VPCs {
		vnis[vni] = true
	}
	delete(vnis, 0) // what belongs to no VPC
	return vnis
}

// VNIs returns every VNI that the node programs, has an attachment of, or may program
// after what it has read so far; ascending.
func (l *Loop) VNIs() []uint32 {
	l.planned.mu.Lock()
	defer l.planned.mu.Unlock()
	all := maps.Clone(l.planned.vnis)
	for _, rec := range l.cfg.Journal.Records() {
		all[rec.VNI] = true
	}
	l.cfg.Store.View(func(tx store.ReadTx) {
		for _, name := range l.cfg.Sources.VPCs() {
			if vpc := store.GetVPC(tx, name); vpc != nil {
				all[vpc.VNI] = true
			}
		}
	})
	delete(all, 0) // of a VPC that has none yet
	return slices.Sorted(maps.Keys(all))
}
