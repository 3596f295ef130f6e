// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/system/periodic"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// Scope is the part of the kernel that a pass compares.
type Scope int

const (
	// atChanges is only the part that the pass has to change.
	atChanges Scope = iota
	// atDevices is everything but the part of a survey.
	atDevices
	// atEverything is the scope of a first pass, and of one after Recheck.
	atEverything
)

func (s Scope) thorough() bool { return s != atChanges }

// scope returns the scope of the next pass. last is the time of the last pass that compared
// devices. It is zero before the first such pass, and after a failed one.
func (l *Loop) scope(last time.Time) Scope {
	switch {
	case l.cfg.Progress.takeRecheck() || last.IsZero():
		return atEverything
	case time.Since(last) >= l.cfg.Every:
		return atDevices
	}
	return atChanges
}

// Survey compares at intervals, until ctx ends, the large parts of the kernel with what
// passes have left there: maps may have tens of thousands of rows, and a change must
// not wait for the comparison of all of them. A pass repairs the differences.
func (l *Loop) Survey(ctx context.Context) {
	periodic.Run(ctx, l.cfg.Every, nil, func() {
		harmed, err := l.cfg.Kernel.Survey()
		if err != nil {
			l.cfg.Log.Warn("can't compare the kernel beside the passes; the next pass does", "error", err)
		}
		if harmed || err != nil {
			l.cfg.Progress.Recheck()
		}
	})
}

// Survey reports whether rows of the maps, programs of pods or rules of the packet
// filter have changed. It changes nothing.
func (k *Kernel) Survey() (harmed bool, err error) {
	if harmed, err = k.surveyPath(); harmed || err != nil {
		return harmed, err
	}
	const attempts = 3
	for range attempts {
		want := k.inForce.Load()
		if want == nil { // not open yet; opening it includes a comparison
			return false, nil
		}
		held, err := netfilter.Holds(*want)
		if k.inForce.Load() == want {
			return !held, err
		}
	}
	return true, nil // the filter changes all the time
}

func (k *Kernel) surveyPath() (harmed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return false, nil
	}
	return k.path.Survey()
}

// sweepEvery is the interval at which ended flows to shared services, and counters of
// removed objects, are deleted.
const sweepEvery = 5 * time.Second

// Sweep deletes them until ctx ends.
func (k *Kernel) Sweep(ctx context.Context) {
	periodic.Run(ctx, sweepEvery, nil, func() {
		if err := k.sweepOnce(); err != nil {
			k.cfg.Log.Warn("can't delete ended flows and old counters; trying again", "error", err)
		}
	})
}

func (k *Kernel) sweepOnce() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return nil
	}
	now, err := datapath.MonotonicNow()
	if err != nil {
		return err
	}
	_, err = k.path.SweepConnections(now)
	return errors.Join(err, k.path.SweepDropCounters())
}
