// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/broadcast"
	"github.com/alioth-net/alioth/store"
)

// newTestLoop has no Node row, so that its passes fail before they touch the
// kernel.
func newTestLoop(t *testing.T, synced broadcast.Gate) (*Loop, *Progress) {
	t.Helper()
	s, err := store.New()
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	host, err := netdev.New(filepath.Join(t.TempDir(), "sysctls.json"), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	metrics, progress := NewMetrics(prometheus.NewRegistry()), &Progress{}
	return New(Config{
		Plan: plan.Config{Node: "node1"}, Store: s, Kernel: NewKernel(KernelConfig{Host: host, Metrics: metrics, Log: log}), Progress: progress,
		Observer: &noting{}, Metrics: metrics, Log: log, Every: time.Minute, Synced: synced,
		Rebuilder: &followed{}, Journal: &followed{}, Held: &followed{}, Sources: &followed{}, APIServers: &followed{},
	}), progress
}

// running runs a loop until the test ends.
func running(t *testing.T, l *Loop) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		l.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-stopped
	})
}

func TestReconcileWait_PassFails_CauseReturned(t *testing.T) {
	l, p := newTestLoop(t, broadcast.Open)
	_, passed := p.PodMTU()
	running(t, l)
	<-passed
	if p.Problem() == "" {
		t.Error("a pass that failed is no problem")
	}
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Programmed(waiting); !errors.Is(err, errNoUnderlay) {
		t.Errorf("Programmed: %v, want %v in it", err, errNoUnderlay)
	}
}

func TestReconcile_NodeObjectsUnread_NothingProgrammed(t *testing.T) {
	changed := make(chan struct{})
	asked := make(chan struct{}, 1)
	l, p := newTestLoop(t, func() (bool, <-chan struct{}) {
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
		l.Run(ctx)
	}()
	<-asked
	cancel()
	<-ended
	if mtu, _ := p.PodMTU(); p.Problem() != "" || mtu != 0 {
		t.Errorf("a pass was made: MTU %d, problem %q", mtu, p.Problem())
	}
}

// followed has the parts of a node: a journal of records, and sources of VPCs.
type followed struct {
	records []journal.Record
	vpcs    []string
}

func (f *followed) Records() []journal.Record { return f.records }
func (f *followed) VPCs() []string            { return f.vpcs }
func (f *followed) Tables() *tablesync.Tables { return nil }
func (f *followed) Removed() []journal.Record { return nil }
func (f *followed) Addresses() []netip.Addr   { return nil }

func (f *followed) Rebuild(context.Context) (int, error) { return 0, nil }
