// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/cached"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
	"github.com/alioth-net/alioth/ebpf/datapath/trial"
)

// Snapshot reads the whole state back from the maps.
func (d *Datapath) Snapshot() (state.State, error) { return d.reader.Snapshot() }

// Counters reads all counters that are not zero.
func (d *Datapath) Counters() ([]telemetry.Counter, error) { return d.reader.Counters() }

// DropCounters reads the drops by device and VPC.
func (d *Datapath) DropCounters() ([]telemetry.DropCounter, error) { return d.reader.DropCounters() }

// SweepDropCounters makes room in the table of DropCounters. It moves drops at a device that no
// longer is an interface to device 0 of their VPC. It deletes the drops of a VPC that has left
// the node. Call it every few seconds.
func (d *Datapath) SweepDropCounters() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return telemetry.NewDropSweeper(d.reader.maps, d.cfg.VXLANIfindex, d.cfg.Uplink()).Sweep()
}

// SweepConnections deletes the flows to services, and the judged flows, that have ended or have
// been silent for too long at now (of MonotonicNow), and corrects the number of flows of each
// interface. It returns the number of deleted flows. Call it every few seconds.
func (d *Datapath) SweepConnections(now time.Duration) (removed int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.flows.Sweep(now)
}

// StaleSockets finds the stale sockets in the network namespace of the calling thread. It
// compares sockets with the present maps, and so also finds stale sockets of an earlier process.
// It returns none without programs.Config.ConnectedDatagrams.
func (d *Datapath) StaleSockets() ([]connections.StaleSocket, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.cfg.ConnectedDatagrams {
		return nil, nil
	}
	return connections.ReadStale(d.objects)
}

// ServicesChanged reports whether services or their backends have changed since the
// last call; for the first call, whether they might have.
func (d *Datapath) ServicesChanged() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := d.servicesChanged
	d.servicesChanged = false
	return changed
}

// Drops starts to receive dropped packets: per interface and reason at most one
// in a second.
func (d *Datapath) Drops() (*telemetry.EventReader, error) { return telemetry.ReadDrops(d.reader.maps) }

// Flows starts to receive forwarded packets, while TellFlows is in effect: one of each
// flow in ten seconds, and of the flows of an interface at most 100 at once and 20 in a
// second. Packets from the tunnel count by their VPC.
func (d *Datapath) Flows() (*telemetry.EventReader, error) { return telemetry.ReadFlows(d.reader.maps) }

// TellFlows lets the programs report flows until a time on the clock of MonotonicNow.
// Each packet costs more during that time.
func (d *Datapath) TellFlows(until time.Duration) error {
	if err := d.objects.AliothFlowsUntil.Set(uint64(until)); err != nil {
		return fmt.Errorf("ask programs for flows: %w", err)
	}
	return nil
}

// Cached returns the table of the rows that the node has looked up.
func (d *Datapath) Cached() *cached.Table { return d.reader.Cached() }

// Misses starts to receive the addresses that have to be looked up.
func (d *Datapath) Misses() (*cached.Misses, error) { return cached.ReadMisses(d.reader.maps) }

// errUnfilled reports that another version's programs still serve the node.
var errUnfilled = errors.New("the node's maps are being replaced by those of this version; try again in a moment")

// TryFromPod returns the result for a frame, the first of its flow, that an interface
// sent. It changes nothing in the datapath. It must not be called at the same time as
// Close.
func (d *Datapath) TryFromPod(ifindex int, frame []byte) (trial.Outcome, error) {
	return d.try(func(t *trial.Trial) (trial.Outcome, error) { return t.FromPod(ifindex, frame) })
}

// TryFromTunnel returns the result for a frame that another node sent from its address,
// in a VPC. It changes nothing in the datapath. It must not be called at the same time
// as Close.
func (d *Datapath) TryFromTunnel(vni uint32, node netip.Addr, frame []byte) (trial.Outcome, error) {
	return d.try(func(t *trial.Trial) (trial.Outcome, error) { return t.FromTunnel(vni, node, frame) })
}

// try runs one trial. The first one loads the trial's programs, which takes the kernel
// so long that Apply does not wait for it; only Close must not happen meanwhile.
func (d *Datapath) try(ask func(*trial.Trial) (trial.Outcome, error)) (trial.Outcome, error) {
	d.mu.Lock()
	unfilled := d.promote != nil
	d.mu.Unlock()
	if unfilled {
		return trial.Outcome{}, errUnfilled
	}
	d.trials.Lock()
	defer d.trials.Unlock()
	if d.trial == nil {
		spec, err := programs.Specify(d.cfg)
		if err != nil {
			return trial.Outcome{}, err
		}
		if d.trial, err = trial.New(spec, d.reader.maps, d.cfg.VXLANIfindex); err != nil {
			return trial.Outcome{}, err
		}
	}
	return ask(d.trial)
}

// MonotonicNow returns the time of the clock that dates flows and events in the programs.
func MonotonicNow() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("read monotonic clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}
