// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/store"
)

// firstRetry and lastRetry bound the wait between failed passes.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Config is what a Loop works with. All fields are required.
type Config struct {
	Plan     plan.Config
	Store    *store.Store
	Kernel   *Kernel
	Progress *Progress
	Observer Observer
	Metrics  *Metrics
	Log      *slog.Logger
	// Every is how often a pass looks at devices, and a survey at the rest of the
	// kernel, whether or not something changed.
	Every time.Duration

	// Synced reports whether what is on this node has been read from the API; the
	// channel is closed when that may have changed.
	Synced func() (bool, <-chan struct{})
	// Adopt takes into the journal what is on the node and not in it, which the first
	// pass would otherwise cut off, and returns for how many pods that is not possible.
	Adopt func(context.Context) (int, error)
	// Records are those of the journal; Departed those of attachments that are gone and
	// that the kubelet may still probe.
	Records, Departed func() []journal.Record
	// VPCs are the names of those of which a pass may come to program something.
	VPCs func() []string
	// Reserved are addresses of API servers, beside those that Plan knows.
	Reserved func() []netip.Addr
}

// Loop makes the passes.
type Loop struct {
	cfg      Config
	notify   notifier
	planned  planned
	existing existing
	// unknown reports that Adopt has left something.
	unknown bool
}

// New returns a Loop that has made no pass.
func New(cfg Config) *Loop {
	return &Loop{
		cfg: cfg, notify: notifier{observer: cfg.Observer, metrics: cfg.Metrics, log: cfg.Log},
		planned: planned{vnis: map[uint32]bool{}},
	}
}

// Run makes passes until ctx ends: after a request, after a change of the
// store, after a failure, and now and then.
func (l *Loop) Run(ctx context.Context) {
	retry := firstRetry
	var lastThorough time.Time
	for ctx.Err() == nil {
		if !l.awaitSync(ctx) {
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

// awaitSync blocks until everything that is on this node has been read. With
// less, a pass would take away what an earlier process had programmed.
func (l *Loop) awaitSync(ctx context.Context) bool {
	for {
		synced, changed := l.cfg.Synced()
		if synced {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// adopt makes sure once that the journal has everything that is here, and
// looks now and then for what was left.
func (l *Loop) adopt(ctx context.Context, thorough bool) error {
	if l.cfg.Progress.Adopted() && (!l.unknown || !thorough) {
		return nil
	}
	left, err := l.cfg.Adopt(ctx)
	if err != nil {
		return err
	}
	l.unknown = left > 0
	l.cfg.Progress.setAdopted()
	return nil
}

// makePass makes a pass, and notifies everybody of how it went.
func (l *Loop) makePass(look scope) outcome {
	began := time.Now()
	last := l.pass(look)
	l.notify.newlyLost(last.lost)
	l.notify.newlyClosed(last)
	l.cfg.Metrics.since(stepTotal, began)
	if last.failure() != nil {
		l.cfg.Metrics.failures.Inc()
	}
	l.cfg.Progress.finish(last)
	l.notify.repaired(l.cfg.Kernel.takeRepairs())
	if len(last.missing) > 0 {
		l.cfg.Observer.Missing(last.missing)
	}
	// A node that was never programmed is not announced, which is notice enough.
	if mtu, _ := l.cfg.Progress.PodMTU(); mtu != 0 && (look.thorough() || last.err != nil) {
		l.cfg.Observer.Check(last.err, l.cfg.Kernel.traffic(), last.mtu)
	}
	return last
}

// idle returns when there is something to do.
func (l *Loop) idle(ctx context.Context, last outcome, atMost time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	// The error reports that the time is up, which is a reason to go on.
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
