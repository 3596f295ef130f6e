// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/install"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/netns"
	"github.com/alioth-net/alioth/cnid/nodeservices"
	"github.com/alioth-net/alioth/cnid/observe"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/cnid/reconcile"
	"github.com/alioth-net/alioth/cnid/release"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
)

// node is what a daemon has of its node: what it opens and closes, and what depends on
// nothing else. The API's side and the daemon are constructed on it.
type node struct {
	cfg     Config
	plan    plan.Config
	log     *slog.Logger
	store   *store.Store
	journal *journal.Journal
	host    *netdev.Host
	// drivers are those that the node can open, kind is the one of new pairs of devices.
	drivers  attach.Registry
	kind     attach.Kind
	registry *prometheus.Registry
	// held are attachments that are gone and that the kubelet may still probe.
	held *release.Held

	progress *reconcile.Progress
	passes   *reconcile.Metrics
	kernel   *reconcile.Kernel
	// health, announcer, drops and flows are given to kernel, which feeds them.
	health       *nodeservices.HealthChecks
	announcer    *nodeservices.Announcer
	drops, flows *observe.Events
}

// newNode opens what is on the node. The caller closes it.
func newNode(ctx context.Context, cfg Config, registry attach.Registry, log *slog.Logger) (*node, error) {
	var err error
	if cfg.CgroupRoot, err = install.CgroupRoot(cfg.CgroupRoot); err != nil {
		return nil, err
	}
	kind, err := choosePodDevice(ctx, cfg.PodDevice, registry.Probe, log)
	if err != nil {
		return nil, err
	}
	ends, err := nodeservices.CanEndSockets(log)
	if err != nil {
		return nil, err
	}
	planned := cfg.planConfig(registry.Catalog())
	if planned.NetnsCookie, err = ownNetns(); err != nil {
		return nil, err
	}
	s, err := store.NewForNode()
	if err != nil {
		return nil, err
	}
	j, host, err := openState(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	n := &node{
		cfg: cfg, plan: planned, log: log, store: s, journal: j, host: host, drivers: registry, kind: kind,
		registry: prometheus.NewRegistry(), held: release.NewHeld(j), progress: &reconcile.Progress{},
		health: nodeservices.NewHealthChecks(log), announcer: nodeservices.NewAnnouncer(log),
		drops: observe.NewEvents((*datapath.Datapath).Drops), flows: observe.NewEvents((*datapath.Datapath).Flows),
	}
	n.passes = reconcile.NewMetrics(n.registry)
	n.kernel = n.newKernel(ends)
	return n, nil
}

// newKernel returns what programs the node, whose stale sockets can be ended or not.
func (n *node) newKernel(endsSockets bool) *reconcile.Kernel {
	return reconcile.NewKernel(reconcile.KernelConfig{
		PinDir: n.cfg.BPFDir, CgroupRoot: n.cfg.CgroupRoot, Shadow4: n.cfg.shadow(true), Shadow6: n.cfg.shadow(false), TunnelPort: n.cfg.TunnelPort,
		FlowsPerShadow: n.cfg.FlowsPerShadow, ConnectionsPerInterface: n.cfg.ConnectionsPerInterface, EndsSockets: endsSockets,
		Host: n.host, HealthChecks: n.health, Announcer: n.announcer, Readers: []reconcile.Reader{n.drops, n.flows}, Metrics: n.passes, Log: n.log,
	})
}

// openState opens the journal, and the node's devices with the settings that they had.
func openState(ctx context.Context, cfg Config, log *slog.Logger) (*journal.Journal, *netdev.Host, error) {
	for _, dir := range []string{cfg.StateDir, cfg.RunDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, nil, fmt.Errorf("make directory: %w", err)
		}
	}
	// In a rollout the last daemon may still be about to end.
	j, err := journal.Open(ctx, journal.Config{
		Path: cfg.journalFile(), Shadow4: cfg.shadow(true), Shadow6: cfg.shadow(false), Log: log,
	})
	if err != nil {
		return nil, nil, err
	}
	host, err := netdev.New(cfg.settingsFile(), log)
	if err != nil {
		return nil, nil, errors.Join(err, j.Close())
	}
	return j, host, nil
}

// ownNetns returns the cookie of the network namespace that the daemon runs in: the
// node's.
func ownNetns() (uint64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Current()
	return own.Cookie, err
}

func (n *node) close() {
	n.health.Close()
	err := n.kernel.Close()
	n.host.Close()
	if err = errors.Join(err, n.journal.Close()); err != nil {
		n.log.Warn("can't close what the daemon had opened", "error", err)
	}
}
