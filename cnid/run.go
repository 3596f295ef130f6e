// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/cnid/apihost"
	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/drivers"
	"github.com/alioth-net/alioth/cnid/attachment"
	"github.com/alioth-net/alioth/cnid/cniapi"
	"github.com/alioth-net/alioth/cnid/cniserver"
	"github.com/alioth-net/alioth/cnid/decision"
	"github.com/alioth-net/alioth/cnid/follow"
	"github.com/alioth-net/alioth/cnid/install"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/monitor"
	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/netns"
	"github.com/alioth-net/alioth/cnid/nodeservices"
	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/cnid/observe"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/cnid/proxyhealth"
	"github.com/alioth-net/alioth/cnid/release"
	"github.com/alioth-net/alioth/cnid/report"
	"github.com/alioth-net/alioth/cnid/rollcall"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/reflector"
)

// Run is the daemon. It ends with ctx, or with an error that keeps it from its
// work for good; a missing API server is none.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	if err := cfg.check(); err != nil {
		return err
	}
	saveMemory()
	config, err := apiConfig(cfg)
	if err != nil {
		return err
	}
	api, err := newClient(config)
	if err != nil {
		return err
	}
	n, err := newNode(ctx, cfg, drivers.All(), log)
	if err != nil {
		return err
	}
	defer n.close()
	n.api = config
	set := reflector.NewSet(n.store, api, log)
	sources := follow.New(follow.Config{Node: cfg.NodeName, DefaultVPC: cfg.DefaultVPC}, api, set, n.store, n.journal.Records, log)
	reporter := report.New(cfg.NodeName, api, n.store, log)
	// Of a journal that lacks something too much would be released.
	complete := func() bool { return sources.BaseSynced() && n.syncer.adopted.Load() }
	releaser := release.New(cfg.NodeName, n.store, n.journal, api, complete, n.held.Holds, log)
	err = n.assemble(control{
		synced: sources.Synced, vpcSynced: sources.VPCSynced, vpcs: sources.VPCs,
		warn: reporter.Refused, lost: reporter.Lost, closed: reporter.Closed, releaser: releaser, report: reporter,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	sources.Start(ctx)
	roll := rollcall.New(cfg.NodeName, n.store, n.journal.Records, api, sources.Synced, n.syncer, log)
	background(ctx, group, sources.Run, releaser.Run, roll.Run, reporter.Run, func(ctx context.Context) {
		if n.syncer.awaitFirst(ctx) {
			reporter.NetworkAvailable(ctx)
		}
	})
	if err := n.start(ctx, group); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return group.Wait()
}

// garbagePercent is how much garbage there may be at most, in percent of what is in
// use. The daemon's memory is the node's and so the pods', and it has little to do
// most of the time, so it rather collects often.
const garbagePercent = 25

// saveMemory sets it, unless the environment says something else.
func saveMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}

// background runs functions that end with ctx and have nothing to report.
func background(ctx context.Context, group *errgroup.Group, functions ...func(context.Context)) {
	for _, f := range functions {
		group.Go(func() error {
			f(ctx)
			return nil
		})
	}
}

// control is what a node gets from the API's side.
type control struct {
	synced    func() (bool, <-chan struct{})
	vpcSynced func(vpc string) (bool, <-chan struct{})
	vpcs      func() []string
	warn      func(pod journal.Pod, reason, message string)
	lost      func(plan.Lost)
	closed    func(plan.ClosedPort)
	releaser  attachment.Releaser
	report    reporting
}

// reporting tells people what happens on the node. Its methods must not block.
type reporting interface {
	Repaired(list []report.Repair)
	// Problems are all that there are now, the gravest first.
	Problems(list []report.Problem)
	// Restored tells of a pod whose interface was made anew or, with a cause,
	// could not be.
	Restored(pod journal.Pod, cause error)
}

// node is the daemon without the API's side: what serves the container runtime
// and programs the kernel from a store that somebody fills.
type node struct {
	cfg     Config
	plan    plan.Config
	log     *slog.Logger
	store   *store.Store
	journal *journal.Journal
	kernel  *kernel
	// drivers are those that the node can open, kind is the one of new pairs of devices.
	drivers  attach.Registry
	kind     attach.Kind
	registry *prometheus.Registry
	// api says who may read metrics from elsewhere; nil without the API's side.
	api *rest.Config
	// apiHost knows what the API server's name stands for.
	apiHost *apihost.Follower

	syncer      *syncer
	attachments *attachment.Manager
	server      *cniserver.Server
	mender      *mender
	// proxyHealth tells load balancers outside about the node; nil where it does not.
	proxyHealth *proxyhealth.Server
	// resizer lets them follow the network's MTU.
	resizer *resizer
	// held are attachments that are gone and that the kubelet may still probe.
	held *release.Held
	// lost tells people of a pod that is cut off; unknown are the interfaces of
	// which that was said because nothing else is known of them.
	lost    func(plan.Lost)
	unknown map[journal.Key]bool
}

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
	for _, dir := range []string{cfg.StateDir, cfg.RunDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	s, err := store.NewForNode()
	if err != nil {
		return nil, err
	}
	// In a rollout the last daemon may still be about to end.
	j, err := journal.Open(ctx, journal.Config{
		Path: cfg.journalFile(), Shadow4: cfg.shadow(true), Shadow6: cfg.shadow(false), Log: log,
	})
	if err != nil {
		return nil, err
	}
	host, err := netdev.New(cfg.settingsFile(), log)
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	own, err := ownNetns()
	if err != nil {
		host.Close()
		return nil, errors.Join(err, j.Close())
	}
	planned := cfg.planConfig(registry.Catalog())
	planned.NetnsCookie = own.Cookie
	metrics := prometheus.NewRegistry()
	k := newKernel(cfg, host, newSyncMetrics(metrics), log)
	k.endsSockets = ends
	return &node{
		cfg: cfg, plan: planned, log: log, store: s, journal: j, kernel: k, registry: metrics,
		drivers: registry, kind: kind, held: release.NewHeld(j), unknown: map[journal.Key]bool{},
	}, nil
}

// ownNetns identifies the network namespace that the daemon runs in: the node's.
func ownNetns() (netns.ID, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return netns.Current()
}

// assemble connects the node's parts with each other and with the API's side.
func (n *node) assemble(c control) error {
	opened, err := n.drivers.Open(state.VirtualMAC[:])
	if err != nil {
		return err
	}
	n.apiHost = apihost.New(n.cfg.APIServerHost, lookup, func() { n.syncer.ask() }, n.log)
	n.registry.MustRegister(observe.NewCollector(n.kernel, n.names(), n.kernel.flowShare, n.log))
	n.syncer = newSyncer(n.plan, n.store, n.journal, n.kernel, c.synced, c.lost, n.kernel.metrics, n.log)
	n.attachments = attachment.New(attachment.Config{
		Journal: n.journal,
		Drivers: opened,
		Decisions: decision.New(decision.Config{
			Plan: n.plan, Reserved: n.apiHost.Addresses, Store: n.store, Pair: n.kind, Probed: n.held.Probed, VPCSynced: c.vpcSynced,
			Attached: n.journal.Records, Listens: n.kernel.host.Listens,
			MTU: n.syncer.PodMTU, Problem: n.syncer.keptBy, Warn: c.warn, Log: n.log,
		}),
		Datapath: n.syncer, Releaser: release.NewDelayed(n.held, c.releaser, func() { n.syncer.ask() }), Metrics: attachment.NewMetrics(n.registry), Log: n.log,
		Wait: n.cfg.Wait,
	})
	n.server = cniserver.New(cniserver.Config{Manager: n.attachments, Metrics: cniserver.NewMetrics(n.registry), Log: n.log})
	n.syncer.adopt, n.syncer.follows, n.syncer.closed, n.lost = n.adopt, c.vpcs, c.closed, c.lost
	n.syncer.reserved = n.apiHost.Addresses
	n.syncer.departed = n.held.Departed
	n.resizer = &resizer{
		attachments: n.attachments, journal: n.journal, mtu: n.syncer.PodMTU, recheck: n.syncer.recheck, log: n.log, told: map[uint64]string{},
	}
	if n.cfg.ProxyHealthAddr != "" {
		n.proxyHealth = &proxyhealth.Server{Addr: n.cfg.ProxyHealthAddr, State: n.syncer.proxyHealth, Log: n.log}
		n.syncer.problemBeside = n.proxyHealth.Problem
	}
	n.mender = newMender(n.attachments, c.report, n.kernel.metrics, n.log)
	n.syncer.every, n.syncer.observe = n.cfg.RecheckEvery, n.mender
	return nil
}

// lookup resolves a name as the node does.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// names are what people are told in place of numbers.
func (n *node) names() observe.Names { return observe.NewNames(n.store, n.journal.Records) }

func (n *node) words() observe.Words {
	shadows := []netip.Addr{journal.NodeShadow(n.cfg.shadow(true)), journal.NodeShadow(n.cfg.shadow(false))}
	return observe.NewWords(n.names(), n.cfg.NodeName, n.cfg.DefaultVPC, shadows)
}

// start serves the container runtime, and tells it to come here once the node
// is programmed.
func (n *node) start(ctx context.Context, group *errgroup.Group) error {
	if err := n.attachments.Reconcile(ctx); err != nil {
		// What could not be removed now is tried again.
		n.log.Warn("can't remove every attachment that is left over", "error", err)
	}
	listener, err := cniserver.Listen(n.cfg.socket())
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(cniapi.PathV1, n.server.Handler())
	mux.Handle(nodestatus.Path, nodestatus.Handler(func(context.Context) nodestatus.Status { return n.syncer.status() }))
	mux.Handle(nodestatus.DumpPath, nodestatus.Handler(n.dump))
	drops := observe.NewPacketLog(n.words(), nil, n.log)
	flows := observe.NewPacketLog(n.words(), n.kernel.TellFlows, n.log)
	tracer := observe.NewTracer(n.words(), n.kernel, func() []string { return n.syncer.status().Warnings })
	mux.Handle(nodestatus.DropsPath, drops)
	mux.Handle(nodestatus.FlowsPath, flows)
	mux.Handle(nodestatus.TracePath, nodestatus.TraceHandler(tracer.Answer))
	group.Go(func() error { return cniserver.Serve(ctx, listener, n.cfg.socket(), mux, n.server.Ready, n.log) })
	group.Go(func() error { return n.serveHTTP(ctx) })
	group.Go(func() error { return n.announce(ctx) })
	watcher := monitor.New(n.syncer.managed, n.syncer.recheck, n.log)
	stale := nodeservices.NewStaleSockets(n.kernel.staleSockets, n.kernel.services, n.plan.NetnsCookie, n.journal.Records, n.registry, n.log)
	background(ctx, group, n.syncer.run, n.syncer.survey, n.syncer.lookout, n.kernel.sweep, n.kernel.announcer.Run, stale.Run, n.apiHost.Run, n.reconcile, watcher.Run, n.mender.run, n.resizer.run,
		func(ctx context.Context) { drops.Run(ctx, n.kernel.drops.Readers()) },
		func(ctx context.Context) { flows.Run(ctx, n.kernel.flows.Readers()) })
	return nil
}

// announce writes the CNI configuration once ADDs can succeed.
func (n *node) announce(ctx context.Context) error {
	if !n.syncer.awaitFirst(ctx) {
		return nil
	}
	if err := install.WriteConflist(n.cfg.CNIConfDir, n.cfg.socket()); err != nil {
		return err
	}
	n.log.Info("node is ready for pods", "node", n.cfg.NodeName)
	return nil
}

// reconcile removes attachments whose sandbox is gone, until ctx ends.
func (n *node) reconcile(ctx context.Context) {
	ticker := time.NewTicker(n.cfg.ReconcileEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := n.attachments.Reconcile(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("can't remove every attachment that is left over; trying again", "error", err)
		}
	}
}

func (n *node) close() {
	n.kernel.close()
	n.kernel.host.Close()
	if err := n.journal.Close(); err != nil {
		n.log.Warn("can't close the journal", "error", err)
	}
}
