// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// scope is how much of the kernel a pass looks at.
type scope int

const (
	// atChanges is what the pass has to change.
	atChanges scope = iota
	// atDevices is all but what a survey looks at.
	atDevices
	// atEverything is what a first pass looks at, and one after Recheck.
	atEverything
)

func (s scope) thorough() bool { return s != atChanges }

// scope is how much the next pass has to look at; the last that looked at devices was
// then, or never, or has failed.
func (l *Loop) scope(last time.Time) scope {
	switch {
	case l.cfg.Progress.takeRecheck() || last.IsZero():
		return atEverything
	case time.Since(last) >= l.cfg.Every:
		return atDevices
	}
	return atChanges
}

// Survey looks now and then, until ctx ends, whether the kernel still has what passes
// have left there, as far as that takes long: maps may have tens of thousands of rows,
// and a change waits for no look at all of them. What it finds, a pass repairs.
func (l *Loop) Survey(ctx context.Context) {
	ticker := time.NewTicker(l.cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		harmed, err := l.cfg.Kernel.survey()
		if err != nil {
			l.cfg.Log.Warn("can't look at what the kernel has beside the passes; a pass looks", "error", err)
		}
		if harmed || err != nil {
			l.cfg.Progress.Recheck()
		}
	}
}

// survey reports whether rows of the maps, programs of pods or rules of the packet
// filter are not as they were left. It changes nothing.
func (k *Kernel) survey() (harmed bool, err error) {
	if harmed, err = k.surveyPath(); harmed || err != nil {
		return harmed, err
	}
	const attempts = 3
	for range attempts {
		want := k.inForce.Load()
		if want == nil { // not yet; whoever makes it so looks at what there is
			return false, nil
		}
		held, err := netfilter.Holds(*want)
		if k.inForce.Load() == want {
			return !held, err
		}
	}
	return true, nil // it changes all the time
}

func (k *Kernel) surveyPath() (harmed bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return false, nil
	}
	return k.path.Survey()
}

// sweepEvery is how often ended flows to shared services are forgotten, and
// counters of what is gone.
const sweepEvery = 5 * time.Second

// Sweep forgets them until ctx ends.
func (k *Kernel) Sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := k.sweepOnce(); err != nil {
			k.cfg.Log.Warn("can't forget what has ended", "error", err)
		}
	}
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
