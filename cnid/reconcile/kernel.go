// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/cnid/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/nodeservices"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/cnid/report"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// KernelConfig is what a Kernel is given. All fields are required but the two shadow
// ranges, of which one may be the zero value.
type KernelConfig struct {
	// PinDir lies on a bpf file system, CgroupRoot is the root of the cgroup2 hierarchy.
	PinDir, CgroupRoot string
	Shadow4, Shadow6   netip.Prefix
	TunnelPort         uint16
	// FlowsPerShadow and ConnectionsPerInterface bound what one pod may hold of the
	// host's connection tracking and of the datapath's.
	FlowsPerShadow, ConnectionsPerInterface uint32
	// EndsSockets reports that stale sockets can be ended on this node.
	EndsSockets bool

	Host         *netdev.Host
	HealthChecks *nodeservices.HealthChecks
	Announcer    *nodeservices.Announcer
	// Readers follow the open datapath.
	Readers []Reader
	Metrics *Metrics
	Log     *slog.Logger
}

func (c KernelConfig) shadow(is4 bool) netip.Prefix {
	if is4 {
		return c.Shadow4
	}
	return c.Shadow6
}

// Reader reads from the open datapath.
type Reader interface {
	// ReadFrom takes a datapath in place of the one before.
	ReadFrom(path *datapath.Datapath) error
	Close() error
}

// Kernel programs what is planned. The exported methods may be called at any time, the
// others only by the Loop.
type Kernel struct {
	cfg KernelConfig

	// tunnel is the node's address in the underlay.
	tunnel   netip.Addr
	underlay netdev.Underlay
	// over6 is the index of the device with the node's IPv6 address, or 0.
	over6   int
	indexes netdev.Indexes
	filter  ruleset.State
	table   netfilter.Table
	// inForce is filter, nil while a pass changes it; for the survey.
	inForce atomic.Pointer[ruleset.State]
	// forgot reports that connection tracking has no UDP flows but where filter leads.
	forgot bool
	// pods is how many pods the node takes, 0: unknown. Programs, packet filter and
	// metrics have it from here.
	pods atomic.Uint32
	// kubeletPort is where the node's kubelet listens, 0: unknown.
	kubeletPort uint16
	// services has an element when a service has changed since it was last taken.
	services chan struct{}
	// repaired are the repairs since takeRepairs was last called.
	repaired []report.Repair

	// mu guards path, which is replaced when the load-time configuration of its programs
	// changes.
	mu     sync.Mutex
	path   *datapath.Datapath
	opened datapath.Config
}

// NewKernel returns a Kernel that has opened nothing yet.
func NewKernel(cfg KernelConfig) *Kernel {
	return &Kernel{cfg: cfg, services: make(chan struct{}, 1)}
}

// ServicesChanged returns a channel that has an element when a service has changed, so
// that there may be stale sockets.
func (k *Kernel) ServicesChanged() <-chan struct{} { return k.services }

// apply makes true what is wanted: the packet filter before what it guards,
// the programs last. What failed for single devices comes apart from what
// concerns the node as a whole.
func (k *Kernel) apply(want plan.Wanted, look scope) (map[int]error, error) {
	if err := k.applyFilter(want.Filter, look); err != nil {
		return nil, err
	}
	began := time.Now()
	update := k.cfg.Host.Update
	if look.thorough() {
		update = k.cfg.Host.Apply
	}
	devices := update(want.Devices)
	k.cfg.Metrics.since(stepDevices, began)
	began = time.Now()
	switch look {
	case atEverything:
		k.path.Recheck()
	case atDevices:
		k.path.RecheckPins()
	}
	programs := k.path.ApplyParts(want.Datapath)
	k.cfg.Metrics.since(stepDatapath, began)
	k.cfg.HealthChecks.Update(want.Health)
	k.cfg.Announcer.Update(k.underlay, want.Announced())
	if k.path.ServicesChanged() {
		select {
		case k.services <- struct{}{}:
		default: // there is one
		}
	}
	failed := map[int]error{}
	return failed, errors.Join(apart(devices, failed), apart(programs, failed))
}

// Close closes the datapath, which stays in the kernel as it is.
func (k *Kernel) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return nil
	}
	var failed []error
	for _, reader := range k.cfg.Readers {
		failed = append(failed, reader.Close())
	}
	failed = append(failed, k.path.Close())
	k.path = nil
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("close the datapath: %w", err)
	}
	return nil
}

// takeRepairs returns what was repaired since the last call.
func (k *Kernel) takeRepairs() []report.Repair {
	list := k.repaired
	k.repaired = nil
	for _, r := range k.cfg.Host.Repaired() {
		list = append(list, report.Repair(r))
	}
	if k.path == nil {
		return list
	}
	for _, r := range k.path.Repaired() {
		list = append(list, report.Repair(r))
	}
	return list
}

// traffic is what the host must let through.
func (k *Kernel) traffic() foreign.Traffic {
	t := foreign.Traffic{
		PodDevices: hostdev.PodPrefix, NodeDevice: hostdev.Node, TunnelPort: k.cfg.TunnelPort,
		Underlay: k.underlay.Device, HostPorts: len(k.filter.HostPorts) > 0,
	}
	if k.pushOn() == 0 {
		t.Tunnel = k.tunnel // elsewhere the host's stack sees nothing of it
	}
	// Nothing leaves the node in a family that it has no address of.
	for _, source := range []netip.Addr{k.opened.TunnelSource4, k.opened.TunnelSource6} {
		if shadow := k.cfg.shadow(source.Is4()); source.IsValid() && shadow.IsValid() {
			t.Shadows = append(t.Shadows, shadow)
		}
	}
	return t
}
