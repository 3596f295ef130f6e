// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// How long a flow to a service is remembered without a packet. The
// programs note packets with a resolution of one second.
const (
	idleEstablished = 2*time.Hour + 4*time.Minute // TCP, RFC 5382 REQ-5
	idleOpening     = time.Minute                 // TCP that nobody answered
	idleClosing     = 10 * time.Second            // TCP closed from both sides, or reset
	idleDatagram    = 30 * time.Second            // UDP
	idleDNS         = 6 * time.Second             // UDP to port 53, which resolvers retry after 5 s
)

const portDNS = 53

// MonotonicNow returns the time of the clock by which flows are dated.
func MonotonicNow() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("read monotonic clock: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// flow is the pair of entries of one flow.
type flow struct {
	forward, reverse       aliothConnKey
	hasForward, hasReverse bool
	ifindex                uint32
	lastSeen               time.Duration
	forwardFlags           aliothConnFlag
	reverseFlags           aliothConnFlag
}

// closed tells whether the flow was closed from both sides, or reset.
func (f *flow) closed() bool {
	either, both := f.forwardFlags|f.reverseFlags, f.forwardFlags&f.reverseFlags
	return both&aliothConnFlagCONN_FIN != 0 || either&aliothConnFlagCONN_RST != 0
}

// answered tells whether the backend has sent anything.
func (f *flow) answered() bool { return f.reverseFlags&aliothConnFlagCONN_SEEN != 0 }

// idle returns for how long the flow may be silent.
func (f *flow) idle() time.Duration {
	switch {
	case f.forward.Proto == state.ProtoUDP && networkOrder(f.forward.PeerPort) == portDNS:
		return idleDNS
	case f.forward.Proto == state.ProtoUDP:
		return idleDatagram
	case f.closed():
		return idleClosing
	case !f.answered():
		return idleOpening
	default:
		return idleEstablished
	}
}

// expired tells whether the flow has ended. Half a pair serves nobody; it is
// left alone for as long as its other half may just be about to be written.
func (f *flow) expired(now time.Duration) bool {
	silent := now - f.lastSeen
	if !f.hasForward || !f.hasReverse {
		return silent > time.Second
	}
	return silent > f.idle()
}

// pairFlows joins the entries that belong together, keyed by the forward key. The reverse
// entry of a flow that has moved to another backend since is by itself, under its own key.
func pairFlows(entries map[aliothConnKey]aliothConn) map[aliothConnKey]*flow {
	flows := map[aliothConnKey]*flow{}
	for key, row := range entries {
		other := key
		other.Peer, other.PeerPort = row.Addr, row.Port
		if row.Outside != 0 { // one is a service of the VPC, and the other beyond the door
			other.Inside = 1 - key.Inside
		}
		forward, reverse := key, other
		other.Direction = aliothConnDirectionCONN_REVERSE
		reverse.Direction = aliothConnDirectionCONN_REVERSE
		if key.Direction == aliothConnDirectionCONN_REVERSE {
			forward, reverse = other, key
			forward.Direction = aliothConnDirectionCONN_FORWARD
		}
		name := forward
		if last, ok := entries[forward]; ok && (last.Addr != reverse.Peer || last.Port != reverse.PeerPort) {
			name = key
		}
		f, ok := flows[name]
		if !ok {
			f = &flow{forward: forward, reverse: reverse, ifindex: row.Ifindex}
			flows[name] = f
		}
		f.lastSeen = max(f.lastSeen, time.Duration(row.LastSeen))
		if key.Direction == aliothConnDirectionCONN_REVERSE {
			f.hasReverse, f.reverseFlags = true, row.Flags
		} else {
			f.hasForward, f.forwardFlags, f.reverse = true, row.Flags, reverse
		}
	}
	return flows
}

// SweepConnections forgets the flows to services that have ended or
// have been silent for too long at now (of MonotonicNow), and sets straight
// how many flows each interface holds. It returns the number of flows
// forgotten. Call it every few seconds.
func (d *Datapath) SweepConnections(now time.Duration) (removed int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.forgetFlows(func(f *flow) bool { return f.expired(now) }, d.forget)
}

// forgetFlows ends the flows that are over, and accounts for it.
func (d *Datapath) forgetFlows(over func(*flow) bool, end func(*flow) error) (removed int, err error) {
	// Read before the entries: a flow opened in between is counted as held
	// once too often until the next time, never once too rarely.
	opened := map[uint32]uint32{}
	if err := readMap(d.objects.AliothConnOpened, opened); err != nil {
		return 0, err
	}
	entries, err := d.reader.readConnections()
	if err != nil {
		return 0, err
	}
	held := map[uint32]uint32{}
	for _, f := range pairFlows(entries) {
		if !over(f) {
			held[f.ifindex]++
			continue
		}
		if err := end(f); err != nil {
			return removed, err
		}
		removed++
	}
	for ifindex, n := range opened {
		if err := d.objects.AliothConnEnded.Update(ifindex, n-held[ifindex], ebpf.UpdateExist); err != nil &&
			!errors.Is(err, ebpf.ErrKeyNotExist) {
			return removed, fmt.Errorf("write ended flows of device %d: %w", ifindex, err)
		}
	}
	return removed, nil
}

// forget deletes the entries of a flow, the forward one first: as long as it is
// there, packets go out whose answers need the other.
func (d *Datapath) forget(f *flow) error {
	if f.hasForward {
		if err := d.objects.AliothConnections.Delete(f.forward); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete connection: %w", err)
		}
	}
	if f.hasReverse {
		if err := d.objects.AliothConnections.Delete(f.reverse); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete connection: %w", err)
		}
	}
	return nil
}

// endsFlows reports whether flows may lead to nobody once others have taken the place of
// these rows, see pruneFlows: to find them, the whole table has to be read.
func (t *tables) endsFlows(now *tables) bool {
	for key, row := range serviceTable.of(t) {
		next, stays := serviceTable.of(now)[key]
		if !stays || key.Proto == state.ProtoUDP && next != row {
			return true
		}
	}
	return false
}

// pruneFlows forgets flows that lead to nobody: those of services that are gone,
// and UDP flows to backends that are gone, whose clients would never notice.
// TCP flows are left to end in peace.
func (d *Datapath) pruneFlows(want *tables) error {
	if !d.unpruned {
		return nil
	}
	now, err := MonotonicNow()
	if err != nil {
		return err
	}
	end := func(f *flow) error {
		if _, stays := serviceTable.of(want)[f.service()]; stays {
			return d.move(f, now)
		}
		return d.forget(f)
	}
	if _, err := d.forgetFlows(func(f *flow) bool { return !want.serves(f) }, end); err != nil {
		return err
	}
	d.unpruned = false
	return nil
}

// move lets a flow find another backend with its next packet. What the last one has
// answered may be under way, and is still told from whom it comes: the reverse entry
// lives on for as long as half a pair does.
func (d *Datapath) move(f *flow, now time.Duration) error {
	if !f.hasForward {
		return nil
	}
	row := aliothConn{LastSeen: uint64(now), Addr: f.forward.Peer, Port: f.forward.PeerPort, Ifindex: f.ifindex, Flags: f.reverseFlags}
	if f.forward.Inside != f.reverse.Inside {
		row.Outside = 1
	}
	err := d.objects.AliothConnections.Update(f.reverse, row, ebpf.UpdateExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("write connection: %w", err)
	}
	if err := d.objects.AliothConnections.Delete(f.forward); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete connection: %w", err)
	}
	return nil
}

// service is the key of the one to which the flow leads.
func (f *flow) service() aliothServiceKey {
	key := aliothServiceKey{Vip: f.forward.Peer, Port: f.forward.PeerPort, Proto: f.forward.Proto}
	if f.forward.Inside != 0 {
		key.Vni = f.forward.Vni
	}
	return key
}

// serves tells whether a flow still has somebody at its other end.
func (t *tables) serves(f *flow) bool {
	service, ok := serviceTable.of(t)[f.service()]
	if !ok {
		return false
	}
	backend := aliothBackend{Ip: f.reverse.Peer, Port: f.reverse.PeerPort}
	if f.forward.Inside != f.reverse.Inside {
		backend.Outside = 1
	}
	return f.forward.Proto == state.ProtoTCP || slices.Contains(t.backendsOf(service), backend)
}
