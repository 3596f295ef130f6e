// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// check looks up a part of a State in the datapath.
func (k *Kernel) check(part state.State) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return errNotOpen
	}
	return k.path.Check(part)
}

// Counters returns the datapath's counters; none before it is open.
func (k *Kernel) Counters() ([]telemetry.Counter, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return nil, nil
	}
	return k.path.Counters()
}

// DropCounters returns the datapath's counters; none before it is open.
func (k *Kernel) DropCounters() ([]telemetry.DropCounter, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return nil, nil
	}
	return k.path.DropCounters()
}

// StaleSockets returns the stale sockets of the calling thread's network namespace; none
// before the datapath is open.
func (k *Kernel) StaleSockets() ([]connections.StaleSocket, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return nil, nil
	}
	return k.path.StaleSockets()
}

// errNotOpen reports that the datapath is not open yet.
var errNotOpen = errors.New("the node's datapath is not open yet")

// Snapshot reads the content of the maps.
func (k *Kernel) Snapshot() (state.State, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return state.State{}, errNotOpen
	}
	return k.path.Snapshot()
}

// Try runs a trial of the programs.
func (k *Kernel) Try(ask func(*datapath.Datapath) (trial.Outcome, error)) (trial.Outcome, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.path == nil {
		return trial.Outcome{}, errNotOpen
	}
	return ask(k.path)
}

// TellFlows lets the programs report flows for a time.
func (k *Kernel) TellFlows(duration time.Duration) error {
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

// TunnelSource is the node's source address of tunnel packets.
func (k *Kernel) TunnelSource(family ipfamily.Family) netip.Addr {
	k.mu.Lock()
	defer k.mu.Unlock()
	return ipfamily.Pick(family, k.opened.TunnelSource4, k.opened.TunnelSource6)
}

// FlowShare is the limit of a pod's flows through the host.
func (k *Kernel) FlowShare() (uint32, error) {
	return netfilter.Share(k.cfg.FlowsPerShadow, k.pods.Load())
}
