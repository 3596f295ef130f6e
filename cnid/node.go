// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/cluster/release"
	"github.com/alioth-net/alioth/cnid/forward/hostlink"
	"github.com/alioth-net/alioth/cnid/forward/lookup"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/nodeservices"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/forward/reconcile"
	"github.com/alioth-net/alioth/cnid/inspect/observe"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/lifecycle/install"
	"github.com/alioth-net/alioth/cnid/lifecycle/stateformat"
	"github.com/alioth-net/alioth/cnid/nodeipam/loopback"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
	"github.com/alioth-net/alioth/store"
)

// node is the daemon's side of its node: the things that the daemon opens and closes, and
// everything that depends on nothing else. The API's side and the daemon are constructed on it.
type node struct {
	cfg     Config
	plan    plan.Config
	log     *slog.Logger
	store   *store.Store
	journal *journal.Journal
	host    *netdev.Host
	// links has the VLAN and VXLAN links.
	links *hostlink.Kernel
	// ofLinks has the addresses that send the packets of the node's VXLAN links, beside the
	// addresses of its Node object; nil before there are links.
	ofLinks interface{ Addresses() []netip.Addr }
	// drivers are open, kind is the one of new pairs of devices.
	drivers  ifdriver.Drivers
	kind     ifdriver.Kind
	registry *prometheus.Registry
	// kinds are the kinds of all drivers.
	kinds ifdriver.Registry
	// held are attachments that are gone and that the kubelet may still probe.
	held *release.Held

	progress *reconcile.Progress
	passes   *reconcile.Metrics
	kernel   *reconcile.Kernel
	// ports are the ports of the node IPAM API.
	ports *loopback.Ports
	// health, announcer, drops, flows and misses are given to kernel, which feeds them.
	health       *nodeservices.HealthChecks
	announcer    *nodeservices.Announcer
	drops, flows *observe.Events[*telemetry.EventReader]
	// misses are the addresses that have to be looked up.
	misses *observe.Events[lookup.Datapath]
}

// newNode opens the node's side: files, devices and sockets. The caller closes it.
func newNode(ctx context.Context, cfg Config, registry ifdriver.Registry, log *slog.Logger) (*node, error) {
	var err error
	if cfg.CgroupRoot, err = install.CgroupRoot(cfg.CgroupRoot); err != nil {
		return nil, err
	}
	n := &node{
		cfg: cfg, plan: cfg.Plan(registry.Catalog()), log: log, registry: prometheus.NewRegistry(), kinds: registry,
		progress: &reconcile.Progress{},
		health:   nodeservices.NewHealthChecks(log), announcer: nodeservices.NewAnnouncer(log),
		drops: observe.NewEvents(
			(*datapath.Datapath).Drops,
		), flows: observe.NewEvents((*datapath.Datapath).Flows), misses: observe.NewEvents(missesOf),
	}
	n.ports = cfg.nodeIPAMPorts(log)
	if n.kind, err = choosePodDevice(ctx, cfg.PodDevice, registry, log); err != nil {
		return nil, err
	}
	ends, err := nodeservices.CanEndSockets(log)
	if err != nil {
		return nil, err
	}
	if n.plan.NetnsCookie, err = ownNetns(); err != nil {
		return nil, err
	}
	if n.store, err = store.New(); err != nil {
		return nil, err
	}
	if err := n.open(ctx, registry); err != nil {
		return nil, err
	}
	n.held, n.passes = release.NewHeld(n.journal), reconcile.NewMetrics(n.registry)
	n.kernel = n.newKernel(ends)
	return n, nil
}

// newKernel returns the Kernel that programs the node. endsSockets says whether the node's stale
// sockets can be ended.
func (n *node) newKernel(endsSockets bool) *reconcile.Kernel {
	pods, port := n.ports.Guarded()
	return reconcile.NewKernel(reconcile.KernelConfig{
		PinDir: n.cfg.BPFDir, CgroupRoot: n.cfg.CgroupRoot, Shadow4: n.cfg.shadow(ipfamily.IPv4),
		Shadow6: n.cfg.shadow(ipfamily.IPv6), TunnelPort: n.cfg.TunnelPort, LinkPort: n.cfg.HostLinkPort,
		FlowsPerShadow: n.cfg.FlowsPerShadow, ConnectionsPerInterface: n.cfg.ConnectionsPerInterface,
		EndsSockets: endsSockets,
		PodCgroup:   pods, GuardedPort: port,
		Host: n.host, HealthChecks: n.health, Announcer: n.announcer, Readers: []reconcile.Reader{n.drops, n.flows, n.misses},
		Metrics: n.passes, Log: n.log,
	})
}

// open opens the journal, the node's devices with the settings that they had, and the
// drivers.
func (n *node) open(ctx context.Context, registry ifdriver.Registry) (err error) {
	for _, dir := range []string{n.cfg.StateDir, n.cfg.RunDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	// In a rollout the last daemon may still be about to end.
	n.journal, err = journal.Open(ctx, n.journalConfig())
	if err != nil {
		return err
	}
	if n.host, err = netdev.New(n.cfg.settingsFile(), n.log); err != nil {
		return errors.Join(err, n.journal.Close())
	}
	if n.links, err = hostlink.Open(); err != nil {
		n.host.Close()
		return errors.Join(err, n.journal.Close())
	}
	node := ifdriver.Node{MAC: state.VirtualMAC[:], Dir: n.cfg.interfacesDir(), Place: n}
	if n.drivers, err = registry.Open(node); err != nil {
		n.links.Close()
		n.host.Close()
		return errors.Join(err, n.journal.Close())
	}
	return nil
}

// journalConfig returns the configuration of the journal. The daemon checks and notes the format of
// the node's state under the journal's lock: the last daemon may be one of a newer release.
func (n *node) journalConfig() journal.Config {
	return journal.Config{
		Path: n.cfg.journalFile(), Shadow4: n.cfg.shadow(ipfamily.IPv4), Shadow6: n.cfg.shadow(ipfamily.IPv6), Log: n.log,
		Format: stateFormat(n.cfg.StateDir),
	}
}

// stateFormat implements journal.Format for the folder of the node's state.
type stateFormat string

// Check implements journal.Format.
func (s stateFormat) Check() error { return stateformat.Check(string(s)) }

// Note implements journal.Format.
func (s stateFormat) Note() error { return stateformat.Note(string(s)) }

// Underlay implements ifdriver.Place.
func (n *node) Underlay() (ifdriver.Underlay, error) {
	if n.cfg.UnderlayAttachments {
		return ifdriver.Underlay{}, nil
	}
	var self *store.Node
	n.store.View(func(tx store.ReadTx) { self = store.GetNode(tx, n.cfg.NodeName) })
	if self == nil || len(self.Addresses) == 0 {
		return ifdriver.Underlay{}, fmt.Errorf(
			"the addresses of node %s are not known yet; the interface waits for its Node object",
			n.cfg.NodeName,
		)
	}
	addrs := self.Addresses
	if n.ofLinks != nil {
		addrs = slices.Concat(addrs, n.ofLinks.Addresses())
	}
	return ifdriver.Underlay{Addrs: addrs, Guarded: n.kernel.Uplink()}, nil
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
	n.drivers.Close()
	n.links.Close()
	n.host.Close()
	if err = errors.Join(err, n.journal.Close()); err != nil {
		n.log.Warn("can't close what the daemon had opened", "error", err)
	}
}
