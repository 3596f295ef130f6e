// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconcile programs the kernel of a node according to store and journal, in
// passes: each plans the desired state, and programs the difference.
//
// It has three parts, which are constructed in this order:
//
//   - Progress takes requests for passes and reports how these went. It depends on
//     nothing, so everything that requests a pass or waits for one is given it.
//   - Kernel programs devices, packet filter and datapath.
//   - Loop makes the passes. It is constructed last, with everything that a pass
//     reads, and with the Observer that it notifies.
package reconcile

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
)

// firstRetry and lastRetry are the limits of the wait between failed passes.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Config is the configuration of a Loop. All fields are required.
type Config struct {
	Plan     plan.Config
	Store    *store.Store
	Kernel   Programmer
	Progress *Progress
	Observer Observer
	Metrics  *Metrics
	Log      *slog.Logger
	// Every is the interval at which a pass compares devices, and a survey the rest of
	// the kernel, without a known change.
	Every time.Duration

	// Synced reports whether the objects of this node have been read from the API.
	Synced    broadcast.Gate
	Rebuilder Rebuilder
	Journal   journal.Reader
	Held      Held
	Sources   Sources
	// APIServers has addresses of API servers, in addition to Plan.Reserved.
	APIServers APIServers
}

// Rebuilder rebuilds records that the journal has lost.
type Rebuilder interface {
	// Rebuild adds to the journal the attachments that exist on the node without a
	// record: otherwise the first pass would disconnect them. It returns the number of
	// pods whose attachments can't be added.
	Rebuild(ctx context.Context) (lost int, err error)
}

// Held has attachments that are removed and still count.
type Held interface {
	// Removed returns the records of removed attachments that the kubelet may still probe.
	Removed() []journal.Record
}

// APIServers has the addresses of API servers.
type APIServers interface {
	Addresses() []netip.Addr
}

// Sources report what the store has of the API.
type Sources interface {
	// Tables returns the tables that the store has completely.
	Tables() *tablesync.Tables
	// VPCs returns the names of the VPCs that a pass may program.
	VPCs() []string
}

// Programmer programs the plans of a Loop. A Kernel implements it. The scale lab
// (test/bench/scale) has a Programmer without a kernel, so that a machine runs the rest of many
// daemons.
//
// The Loop calls Survey from a second goroutine, everything else from one.
type Programmer interface {
	// Prepare makes the devices that exist always and opens the datapath, for this Node
	// object; nil if that is not known. Only a thorough call checks what exists.
	Prepare(self *store.Node, thorough bool) error
	// Made returns the facts about the devices of the last Prepare, also if it failed
	// afterwards.
	Made() Made
	// Existing returns the indexes of the named devices that exist, by name.
	Existing(names []string) (map[string]int, error)
	// Apply programs a plan. It returns the errors of single devices by their index, and an
	// error of the node as a whole.
	Apply(want plan.Wanted, look Scope) (map[int]error, error)
	// TakeRepairs returns the repairs since the last call.
	TakeRepairs() []finding.Repair
	// Traffic is the traffic that the host must let through.
	Traffic() foreign.Traffic
	// Survey reports whether what passes have programmed was changed by others. It
	// changes nothing.
	Survey() (harmed bool, err error)
}

// Made holds the facts about the existing network of a node beside the devices of pods.
type Made struct {
	// PodMTU is the MTU for pods in bytes, 0 before the first Prepare.
	PodMTU int
	// NodePeer is plan.Input.NodePeer. Devices are the indexes of the devices that exist
	// always, and of the underlay.
	NodePeer int
	Devices  []int
}

// Loop makes the passes.
type Loop struct {
	cfg      Config
	notify   notifier
	planned  planned
	existing existing
	// unknown reports that Adopt has left pods without records.
	unknown bool
}

// New returns a Loop that has made no pass.
func New(cfg Config) *Loop {
	return &Loop{
		cfg: cfg, notify: notifier{observer: cfg.Observer, metrics: cfg.Metrics, log: cfg.Log},
		planned: planned{vnis: map[uint32]bool{}},
	}
}

// Run makes passes until ctx ends: after a request, after a change of the store, after
// a failure, and at intervals.
func (l *Loop) Run(ctx context.Context) {
	retry := firstRetry
	var lastThorough time.Time
	for ctx.Err() == nil {
		if !l.cfg.Synced.Wait(ctx) { // with fewer objects, a pass would remove the work of an earlier process
			return
		}
		look := l.scope(lastThorough)
		if err := l.adopt(ctx, look.thorough()); err != nil {
			l.cfg.Log.Warn("can't compare the journal with the node; trying again", "error", err, "after", lastRetry)
			rest(ctx, lastRetry)
			continue
		}
		began := time.Now()
		last := l.makePass(look)
		if look.thorough() {
			lastThorough = began
		}
		pause := time.Until(lastThorough.Add(l.cfg.Every))
		if last.failure() == nil {
			retry = firstRetry
		} else {
			l.cfg.Log.Warn("can't program the node; trying again", "error", last.failure(), "after", retry)
			pause, retry = min(pause, retry), min(2*retry, lastRetry)
		}
		if last.err != nil {
			// A pass for a request in the meantime would fail as well.
			lastThorough = time.Time{}
			rest(ctx, pause)
			continue
		}
		l.idle(ctx, last, pause)
	}
}

// adopt completes the journal once with the attachments that exist on the node, and
// repeats this at intervals for those that it had to leave.
func (l *Loop) adopt(ctx context.Context, thorough bool) error {
	if l.cfg.Progress.Adopted() && (!l.unknown || !thorough) {
		return nil
	}
	left, err := l.cfg.Rebuilder.Rebuild(ctx)
	if err != nil {
		return err
	}
	l.unknown = left > 0
	l.cfg.Progress.setAdopted()
	return nil
}

// makePass makes a pass, and notifies the observer and all waiting calls of its result.
func (l *Loop) makePass(look Scope) outcome {
	began := time.Now()
	last := l.pass(look)
	l.notify.newlyLost(last.lost)
	l.notify.newlyClosed(last)
	l.cfg.Metrics.since(stepTotal, began)
	if last.failure() != nil {
		l.cfg.Metrics.failures.Inc()
	}
	l.cfg.Progress.finish(last)
	l.notify.repaired(l.cfg.Kernel.TakeRepairs())
	if len(last.missing) > 0 {
		l.cfg.Observer.Missing(last.missing)
	}
	// A node that was never programmed is not announced, so no further report is
	// needed.
	if mtu, _ := l.cfg.Progress.PodMTU(); mtu != 0 && (look.thorough() || last.err != nil) {
		l.cfg.Observer.Check(last.err, l.cfg.Kernel.Traffic(), last.mtu)
	}
	return last
}

// idle returns when the next pass is due.
func (l *Loop) idle(ctx context.Context, last outcome, atMost time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	// The error reports the end of the wait, which is a reason for a pass.
	_ = l.cfg.Store.Wait(ctx, func(tx store.ReadTx, ws *store.WatchSet) bool {
		pending, asking := l.cfg.Progress.pending(last.upTo)
		ws.Add(asking)
		return pending || tx.Revision() != last.revision
	})
}

func rest(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
