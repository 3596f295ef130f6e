// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/store"
)

// newTestSyncer has no Node row, so that its passes fail before they touch the
// kernel.
func newTestSyncer(t *testing.T, synced func() (bool, <-chan struct{})) *syncer {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	j, err := journal.Open(t.Context(), journal.Config{
		Path: filepath.Join(t.TempDir(), "journal.log"), Shadow4: netip.MustParsePrefix("169.254.64.0/18"), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	metrics := newSyncMetrics(prometheus.NewRegistry())
	made := newSyncer(plan.Config{Node: "node1"}, s, j, &kernel{metrics: metrics, log: log}, synced, func(plan.Lost) {}, metrics, log)
	made.adopt = func(context.Context) (int, error) { return 0, nil }
	return made
}

func alwaysSynced() (bool, <-chan struct{}) { return true, nil }

func TestADELBeforeTheFirstPassWaitsForNothing(t *testing.T) {
	s := newTestSyncer(t, func() (bool, <-chan struct{}) { return false, nil })
	if err := s.Unprogram(t.Context(), journal.Record{}); err != nil {
		t.Errorf("Unprogram: %v", err)
	}
}

func TestWhoWaitsForAPassIsToldWhyItFails(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	running, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.run(running)
	}()
	t.Cleanup(func() {
		stop()
		<-stopped
	})
	eventually(t, "a pass fails", func() error {
		if s.status().Problem == "" {
			return errors.New("no problem yet")
		}
		return nil
	})
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.settle(waiting, s.ask(), 0); !errors.Is(err, errNoUnderlay) {
		t.Errorf("settle: %v, want %v in it", err, errNoUnderlay)
	}
}

func TestSTATUSFailsOnlyForWhatLasts(t *testing.T) {
	s := newTestSyncer(t, alwaysSynced)
	if err := s.Ready(); err != nil {
		t.Errorf("before the first pass: %v", err)
	}
	s.finish(outcome{err: errNoUnderlay})
	if err := s.Ready(); err != nil {
		t.Errorf("after one failure: %v", err)
	}
	s.failing = s.failing.Add(-lasting - time.Second)
	s.finish(outcome{err: errNoUnderlay})
	if err := s.Ready(); !errors.Is(err, errNoUnderlay) {
		t.Errorf("after failures for longer than %s: %v", lasting, err)
	}
	s.finish(outcome{})
	if err := s.Ready(); err != nil {
		t.Errorf("after a success: %v", err)
	}
}

func TestNothingIsProgrammedBeforeTheNodesPartOfTheAPIWasRead(t *testing.T) {
	changed := make(chan struct{})
	asked := make(chan struct{}, 1)
	s := newTestSyncer(t, func() (bool, <-chan struct{}) {
		select {
		case asked <- struct{}{}:
		default:
		}
		return false, changed
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx)
	}()
	<-asked
	cancel()
	<-ended
	if status := s.status(); status.Problem != "" || status.Programmed {
		t.Errorf("a pass was made: %+v", status)
	}
}
