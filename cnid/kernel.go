// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/cnid/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/nodeservices"
	"github.com/alioth-net/alioth/cnid/observe"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/cnid/report"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// kernel carries out what is planned. Its methods other than counters and
// sweep are called by the syncer alone.
type kernel struct {
	cfg     Config
	host    *netdev.Host
	metrics *syncMetrics
	log     *slog.Logger

	// tunnel is the node's address in the underlay.
	tunnel   netip.Addr
	underlay netdev.Underlay
	// over6 is the index of the device with the node's IPv6 address, or 0.
	over6   int
	indexes netdev.Indexes
	filter  ruleset.State
	table   netfilter.Table
	// inForce is filter while nobody changes it, for the survey.
	inForce atomic.Pointer[ruleset.State]
	// forgot says that connection tracking has no UDP flows but where filter leads.
	forgot bool
	// pods is how many pods the node takes, 0: it has not said. Programs, packet
	// filter and metrics have it from here.
	pods atomic.Uint32
	// kubeletPort is where the node's kubelet listens, 0: it has not said.
	kubeletPort uint16
	// endsSockets says that stale sockets can be ended; services is told that
	// there may be some.
	endsSockets bool
	services    chan struct{}
	// repaired is what was found changed by others since it was last asked for.
	repaired []report.Repair

	health    *nodeservices.HealthChecks
	announcer *nodeservices.Announcer

	// mu guards path, which is replaced when what its programs are told at
	// load time changes.
	mu     sync.Mutex
	path   *datapath.Datapath
	opened datapath.Config
	// What path tells of single packets.
	drops, flows *observe.Events
}

func newKernel(cfg Config, host *netdev.Host, metrics *syncMetrics, log *slog.Logger) *kernel {
	return &kernel{
		cfg: cfg, host: host, metrics: metrics, log: log, health: nodeservices.NewHealthChecks(log), announcer: nodeservices.NewAnnouncer(log),
		services: make(chan struct{}, 1),
		drops:    observe.NewEvents((*datapath.Datapath).Drops), flows: observe.NewEvents((*datapath.Datapath).Flows),
	}
}

// errNoUnderlay says that the Node object has no address to tunnel with yet.
var errNoUnderlay = errors.New("the Node object has no InternalIP")

// prepare makes the devices and opens the datapath for a node with these
// InternalIPs. Only a thorough call looks at devices that are there.
func (k *kernel) prepare(internalIPs []netip.Addr, thorough bool) error {
	source4, source6 := firstOf(internalIPs, true), firstOf(internalIPs, false)
	tunnel := source4
	if !tunnel.IsValid() {
		tunnel = source6
	}
	if !tunnel.IsValid() {
		return errNoUnderlay
	}
	if thorough || k.path == nil || tunnel != k.tunnel {
		underlay, err := k.host.Underlay(tunnel)
		if err != nil {
			return fmt.Errorf("find the node's network: %w", err)
		}
		// As with a pod that has IPv6, which the node may have.
		if k.indexes, err = k.host.Links(k.cfg.devices(max(underlay.PodMTU, plan.MinMTU6))); err != nil {
			return err
		}
		k.tunnel, k.underlay = tunnel, underlay
		if k.over6, err = k.deviceOf(source6); err != nil {
			return err
		}
	}
	return k.open(datapath.Config{
		PinDir: k.cfg.BPFDir, CgroupRoot: k.cfg.CgroupRoot, VXLANIfindex: k.indexes.Tunnel, TunnelPort: k.cfg.TunnelPort,
		UnderlayIfindex: k.pushOn(), UnderlayMAC: k.underlay.MAC, UnderlayIfindex6: k.over6, TunnelSource4: source4, TunnelSource6: source6,
		FragmentIfindex: k.indexes.Fragment, FragmentPeerIfindex: k.indexes.FragmentPeer,
		NodeShadow4: journal.NodeShadow(k.cfg.shadow(true)), NodeShadow6: journal.NodeShadow(k.cfg.shadow(false)),
		KubeletPort: k.kubeletPort, ConnectedDatagrams: k.endsSockets,
		ConnectionsPerInterface: min(k.cfg.ConnectionsPerInterface, datapath.ShareOfConnections(k.pods.Load())),
	})
}

// deviceOf returns the index of the device with an address; 0: there is none.
func (k *kernel) deviceOf(ip netip.Addr) (int, error) {
	if !ip.IsValid() {
		return 0, nil
	}
	found, err := k.host.Underlay(ip)
	if errors.Is(err, netdev.ErrNoUnderlay) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find the node's network: %w", err)
	}
	return found.Ifindex, nil
}

// pushOn is the device on which the programs push and pop outer headers, which
// they do over IPv4 only; 0: none.
func (k *kernel) pushOn() int {
	if k.tunnel.Is4() {
		return k.underlay.Ifindex
	}
	return 0
}

// firstOf returns the first address of a family, or the zero value.
func firstOf(addrs []netip.Addr, is4 bool) netip.Addr {
	at := slices.IndexFunc(addrs, func(ip netip.Addr) bool { return ip.Is4() == is4 })
	if at < 0 {
		return netip.Addr{}
	}
	return addrs[at]
}

// open replaces the open datapath when the programs have to be told something
// else. The new ones take the place of the old ones on every hook.
func (k *kernel) open(cfg datapath.Config) error {
	// Nobody else writes them. Whoever reads the datapath may hold the lock for long.
	if k.path != nil && k.opened == cfg {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	path, err := datapath.Open(cfg, k.log)
	if err != nil {
		return fmt.Errorf("open datapath: %w", err)
	}
	if k.path != nil {
		err = k.path.Close()
	}
	k.path, k.opened = path, cfg
	return errors.Join(err, k.drops.ReadFrom(path), k.flows.ReadFrom(path))
}

// apply makes true what is wanted: the packet filter before what it guards,
// the programs last. What failed for single devices comes apart from what
// concerns the node as a whole.
func (k *kernel) apply(want plan.Wanted, look scope) (map[int]error, error) {
	if err := k.applyFilter(want.Filter, look); err != nil {
		return nil, err
	}
	began := time.Now()
	update := k.host.Update
	if look.thorough() {
		update = k.host.Apply
	}
	devices := update(want.Devices)
	k.metrics.since(stepDevices, began)
	began = time.Now()
	switch look {
	case atEverything:
		k.path.Recheck()
	case atDevices:
		k.path.RecheckPins()
	}
	programs := k.path.ApplyParts(want.Datapath)
	k.metrics.since(stepDatapath, began)
	k.health.Update(want.Health)
	k.announcer.Update(k.underlay, want.Announced())
	if k.path.ServicesChanged() {
		select {
		case k.services <- struct{}{}:
		default: // told already
		}
	}
	failed := map[int]error{}
	return failed, errors.Join(apart(devices, failed), apart(programs, failed))
}

func (k *kernel) applyFilter(want ruleset.State, look scope) error {
	want.Pods = k.pods.Load()
	known := want.Equal(k.filter)
	if known && look != atEverything {
		return nil
	}
	began := time.Now()
	k.inForce.Store(nil)
	replaced, err := k.filterAs(want, look == atEverything)
	if err != nil {
		return err
	}
	if replaced && known {
		k.repaired = append(k.repaired, report.Repair{Kind: report.RepairFilter, Detail: "packet filter table inet " + netfilter.TableName})
	}
	k.forget(want)
	k.filter = want
	k.inForce.Store(&want)
	k.metrics.since(stepFilter, began)
	return nil
}

// filterAs makes the packet filter as it is wanted, and reports whether anything was
// replaced. Services come and go far more often than anything else, and they are many.
func (k *kernel) filterAs(want ruleset.State, thorough bool) (replaced bool, err error) {
	if !thorough && ruleset.OnlyFrontends(k.filter, want) {
		if err = k.table.Change(want); err == nil {
			return true, nil
		}
		k.log.Warn("can't change ports of services; looking at the whole packet filter", "error", err)
	}
	return k.table.Apply(want)
}

// forget ends UDP flows to what a filter leads to no more, which is in force. What an
// earlier process led somewhere is not known: so the first filter is always looked at.
func (k *kernel) forget(filter ruleset.State) {
	if k.forgot && netfilter.SameUDP(k.filter, filter) {
		return
	}
	count, err := netfilter.Forget(filter)
	k.forgot = err == nil
	if err != nil {
		k.log.Warn("can't forget UDP flows to backends that are gone; they go on until nobody sends for a while", "error", err)
	}
	if count > 0 {
		k.log.Debug("forgot UDP flows to backends that are gone", "flows", count)
	}
}

func (k *kernel) close() {
	k.health.Close()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return
	}
	if err := errors.Join(k.drops.Close(), k.flows.Close(), k.path.Close()); err != nil {
		k.log.Warn("can't close the datapath", "error", err)
	}
	k.path = nil
}

// check looks for a part of the datapath.
func (k *kernel) check(part state.State) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return errNotOpen
	}
	return k.path.Check(part)
}

// Counters returns the datapath's; none before it is open.
func (k *kernel) Counters() ([]telemetry.Counter, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return nil, nil
	}
	return k.path.Counters()
}

// DropCounters returns the datapath's; none before it is open.
func (k *kernel) DropCounters() ([]telemetry.DropCounter, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return nil, nil
	}
	return k.path.DropCounters()
}

// staleSockets returns the datapath's; none before it is open.
func (k *kernel) staleSockets() ([]connections.StaleSocket, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return nil, nil
	}
	return k.path.StaleSockets()
}

// errNotOpen says that nothing is programmed yet.
var errNotOpen = errors.New("the node's datapath is not open yet")

// Snapshot reads what the maps hold.
func (k *kernel) Snapshot() (state.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return state.State{}, errNotOpen
	}
	return k.path.Snapshot()
}

// Try asks the programs what they would do.
func (k *kernel) Try(ask func(*datapath.Datapath) (trial.Outcome, error)) (trial.Outcome, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return trial.Outcome{}, errNotOpen
	}
	return ask(k.path)
}

// TellFlows lets the programs tell which flows pass, for a time.
func (k *kernel) TellFlows(duration time.Duration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return errNotOpen
	}
	now, err := datapath.MonotonicNow()
	if err != nil {
		return err
	}
	return k.path.TellFlows(now + duration)
}

// TunnelSource is the address under which this node sends tunnel packets.
func (k *kernel) TunnelSource(is4 bool) netip.Addr {
	k.mu.Lock()
	defer k.mu.Unlock()
	if is4 {
		return k.opened.TunnelSource4
	}
	return k.opened.TunnelSource6
}

// flowShare is how many flows through the host a pod may have.
func (k *kernel) flowShare() (uint32, error) {
	return netfilter.Share(k.cfg.FlowsPerShadow, k.pods.Load())
}

// sweepEvery is how often ended flows to shared services are forgotten, and
// Counters of what is gone.
const sweepEvery = 5 * time.Second

// sweep forgets them until ctx ends.
func (k *kernel) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := k.sweepOnce(); err != nil {
			k.log.Warn("can't forget what has ended", "error", err)
		}
	}
}

func (k *kernel) sweepOnce() error {
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
