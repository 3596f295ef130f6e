// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/nmstate/document"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/cnid/forward/monitor"
	"github.com/alioth-net/alioth/cnid/nmstate/engine"
	"github.com/alioth-net/alioth/cnid/nmstate/transaction"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// TestMain is the guard of a transaction where the engine starts it.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "guard" {
		if err := guard(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func guard(dir, id string) error {
	return engine.Guard(context.Background(), engine.Config{Dir: dir, Log: os.Stderr}, id)
}

// TestHandlerKernel_ManualChange_Undone: the kernel tells of the change, for the handler
// looks by itself once an hour only.
func TestHandlerKernel_ManualChange_Undone(t *testing.T) {
	space := netnstest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	w := newWorld()
	cfg := w.config()
	cfg.Poll = time.Hour
	space.Do(t, func() error {
		err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth1", MTU: 1500}, PeerName: "eth2", PeerMTU: 1500})
		if err != nil {
			return err
		}
		cfg.Engine, err = openEngine(t)
		return err
	})
	defer w.runIn(ctx, t, space, cfg)()
	w.await(ctx, t, "the object is made", func() bool { return w.object != nil && w.object.Status.CurrentState != nil })
	showsMTU(t, w.status(t), "eth1", 1500)
	w.mu.Lock()
	w.ask(`{"interfaces":[{"name":"eth1","type":"veth","mtu":1400,"veth":{"peer":"eth2"}}]}`)
	w.mu.Unlock()
	reached := func() bool {
		return w.object.Status.ObservedDesiredGeneration == w.object.Generation && mtuOf(t, space, "eth1") == 1400
	}
	w.await(ctx, t, "the device has the desired MTU", reached)
	status := w.status(t)
	showsMTU(t, status, "eth1", 1400)
	has(t, status, nmstatev1.AvailableCondition, metav1.ConditionTrue, nmstatev1.SuccessfullyConfiguredReason)
	for range 2 {
		space.Do(t, func() error { return setMTU("eth1", 1300) })
		w.await(ctx, t, "the change by hand is undone", reached)
	}
}

// hasty is an engine that waits for no answer, and counts the changes that failed.
type hasty struct {
	Engine
	failed *atomic.Int32
}

func (h hasty) Apply(ctx context.Context, desired *document.State, o transaction.Options) (*transaction.Result, error) {
	o.ProbeLimit = 200 * time.Millisecond
	result, err := h.Engine.Apply(ctx, desired, o)
	if err != nil {
		h.failed.Add(1)
	}
	return result, err
}

// TestHandlerKernel_Failure_ReportedOnce: tries whose target does not answer have the same cause,
// whatever the kernel says in detail.
func TestHandlerKernel_Failure_ReportedOnce(t *testing.T) {
	space := netnstest.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), waits.Limit(time.Minute))
	defer cancel()
	w := newWorld()
	cfg := w.config()
	hurried := hasty{failed: &atomic.Int32{}}
	space.Do(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err == nil {
			err = errors.Join(netlink.LinkSetUp(lo), netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth1"}, PeerName: "eth2"}))
		}
		if err == nil {
			hurried.Engine, err = openEngine(t)
		}
		return err
	})
	cfg.Engine = hurried
	defer w.runIn(ctx, t, space, cfg)()
	w.await(ctx, t, "the object is made", func() bool { return w.object != nil && w.object.Status.CurrentState != nil })
	w.mu.Lock()
	w.object.Spec.Reach = []nmstatev1.ReachTarget{"127.0.0.1:1"}
	w.ask(`{"interfaces":[{"name":"eth1","description":"one"}]}`)
	w.mu.Unlock()
	w.await(ctx, t, "the failure is reported", func() bool { return len(w.object.Status.Failures) == 1 })
	w.mu.Lock()
	first, writes := w.object.Status.Failures[0].Message, len(w.writes)
	w.mu.Unlock()
	w.await(ctx, t, "it is tried again and again", func() bool { return hurried.failed.Load() > 3 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.object.Status.Failures[0].Message; got != first || !strings.Contains(got, "127.0.0.1:1") || len(w.writes) != writes {
		t.Errorf("%d more reports, the last one of %q, the first one of %q", len(w.writes)-writes, got, first)
	}
}

// openEngine opens an engine of the calling thread's network namespace.
func openEngine(t *testing.T) (Engine, error) {
	t.Helper()
	dir := t.TempDir()
	e, err := engine.Open(engine.Config{Dir: dir, Guard: []string{"/proc/self/exe", "guard", dir}, Log: t.Output()})
	if err == nil {
		t.Cleanup(e.Close)
	}
	return e, err
}

// runIn runs a handler, and its watch in a network namespace, until the returned function is
// called.
func (w *world) runIn(ctx context.Context, t *testing.T, space *netnstest.Namespace, cfg Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{}, 2)
	end := func() { ended <- struct{}{} }
	go space.Do(t, func() error {
		defer end()
		monitor.NetworkWatch{Changed: w.hint, Log: cfg.Log}.Run(ctx)
		return nil
	})
	go func() {
		defer end()
		New(cfg).Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
		<-ended
	}
}

// await waits for a condition, which may read the world.
func (w *world) await(ctx context.Context, t *testing.T, what string, is func() bool) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		w.mu.Lock()
		ok := is()
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: it does not happen; the status is %+v", what, w.status(t))
		case <-again.C:
		}
	}
}

func mtuOf(t *testing.T, space *netnstest.Namespace, name string) int {
	t.Helper()
	return space.Link(t, name).Attrs().MTU
}

func setMTU(name string, mtu int) error {
	link, err := netlink.LinkByName(name)
	return errors.Join(err, netlink.LinkSetMTU(link, mtu))
}
