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

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/foreign"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/cnid/forward/nodeservices"
	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

// KernelConfig is the configuration of a Kernel. All fields are required, except one of the
// two shadow ranges and the guarded port.
type KernelConfig struct {
	// PinDir is on a bpf file system, CgroupRoot is the root of the cgroup2 hierarchy.
	PinDir, CgroupRoot string
	Shadow4, Shadow6   netip.Prefix
	// LinkPort is the UDP port of VXLAN links outside of every VPC.
	TunnelPort, LinkPort uint16
	// FlowsPerShadow and ConnectionsPerInterface limit a pod's entries in the host's
	// connection tracking and in the datapath's.
	FlowsPerShadow, ConnectionsPerInterface uint32
	// PodCgroup is the cgroup2 directory of pods whose processes are kept away from the TCP
	// port GuardedPort of the node's loopback; both are zero without one.
	PodCgroup   string
	GuardedPort uint16
	// EndsSockets reports that stale sockets can be ended on this node.
	EndsSockets bool

	Host         *netdev.Host
	HealthChecks *nodeservices.HealthChecks
	Announcer    *nodeservices.Announcer
	// Readers are given the open datapath.
	Readers []Reader
	Metrics *Metrics
	Log     *slog.Logger
}

func (c KernelConfig) shadow(family ipfamily.Family) netip.Prefix {
	return ipfamily.Pick(family, c.Shadow4, c.Shadow6)
}

// Reader reads from the open datapath.
type Reader interface {
	// ReadFrom replaces the datapath of a reader.
	ReadFrom(path *datapath.Datapath) error
	Close() error
}

// Kernel programs plans. The methods of Programmer are for the Loop alone, the other
// exported ones may be called at any time.
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
	// inForce is the value of filter for the survey; nil while a pass changes it.
	inForce atomic.Pointer[ruleset.State]
	// forgot reports that connection tracking has no UDP flows except those that filter
	// leads to a backend.
	forgot bool
	// pods is the node's limit of pods, 0: unknown. Programs, packet filter and metrics
	// use it.
	pods atomic.Uint32
	// kubeletPort is the port at which the node's kubelet listens, 0: unknown.
	kubeletPort uint16
	// services has an element when a service has changed since it was last received.
	services chan struct{}
	// repaired are the repairs since TakeRepairs was last called.
	repaired []finding.Repair

	// leftOut describes the parts of its plan that the last Apply had to leave out.
	leftOut atomic.Pointer[[]string]

	// mu guards path, which is replaced when the load-time configuration of its programs
	// changes.
	mu     sync.Mutex
	path   *datapath.Datapath
	opened programs.Config
}

// NewKernel returns a Kernel that has opened nothing yet.
func NewKernel(cfg KernelConfig) *Kernel {
	return &Kernel{cfg: cfg, services: make(chan struct{}, 1)}
}

// ServicesChanged returns a channel that has an element when a service has changed, so
// that stale sockets may exist.
func (k *Kernel) ServicesChanged() <-chan struct{} { return k.services }

// Apply programs the plan: the groups of pods' devices before the packet filter, which
// trusts them, the packet filter before the paths that it guards, the
// programs last. Errors of single devices are returned apart from errors of the whole
// node. What contradicts itself in the plan is left out, see LeftOut.
func (k *Kernel) Apply(want plan.Wanted, look Scope) (map[int]error, error) {
	failed, err := k.program(want, look)
	if !isInvalid(err) {
		k.leftOut.Store(nil)
		return failed, err
	}
	k.cfg.Log.Error("the plan contradicts itself; programming it without the contradictions", "error", err)
	sound, left := sound(want)
	k.leftOut.Store(&left)
	return k.program(sound, look)
}

func (k *Kernel) program(want plan.Wanted, look Scope) (map[int]error, error) {
	if look.thorough() {
		if err := k.cfg.Host.Recognize(want.Devices.Pods); err != nil {
			return nil, err
		}
	}
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

// TakeRepairs returns the repairs since the last call.
func (k *Kernel) TakeRepairs() []finding.Repair {
	list := k.repaired
	k.repaired = nil
	for _, r := range k.cfg.Host.Repaired() {
		list = append(list, finding.Repair(r))
	}
	if k.path == nil {
		return list
	}
	for _, r := range k.path.Repaired() {
		list = append(list, finding.Repair(r))
	}
	return list
}

// Traffic is the traffic that the host must let through.
func (k *Kernel) Traffic() foreign.Traffic {
	t := foreign.Traffic{
		PodGroup: hostdev.PodGroup, PodDevices: hostdev.PodPrefix, NodeDevice: hostdev.Node, TunnelPort: k.cfg.TunnelPort,
		Underlay: k.underlay.Device, UnderlayIndex: uint32(k.underlay.Ifindex), UnderlayGroup: k.underlay.Group,
		HostPorts: len(k.filter.HostPorts) > 0,
	}
	if k.pushOn() == 0 {
		t.Tunnel = k.tunnel // otherwise the programs handle tunnel packets before the stack
	}
	// A family without an address of the node leaves it nowhere.
	for _, source := range []netip.Addr{k.opened.TunnelSource4, k.opened.TunnelSource6} {
		if shadow := k.cfg.shadow(ipfamily.Of(source)); source.IsValid() && shadow.IsValid() {
			t.Shadows = append(t.Shadows, shadow)
		}
	}
	return t
}
