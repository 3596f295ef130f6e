// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
)

// Table is the node's table of flows to services, and the interfaces' counters of them.
// The programs open flows, the Table ends them. Its methods must not be called
// concurrently.
type Table struct {
	connections, opened, ended *ebpf.Map
}

// New returns the table that is in these maps.
func New(in bpf.Maps) *Table {
	return &Table{connections: in[bpf.ConnectionsMap], opened: in[bpf.OpenedMap], ended: in[bpf.EndedMap]}
}

// Services are the services that flows may lead to.
type Services interface {
	// HasService reports whether there is such a port of a virtual address.
	HasService(key bpf.AliothServiceKey) bool
	// HasBackend reports whether the service is there and has the backend.
	HasBackend(key bpf.AliothServiceKey, backend bpf.AliothBackend) bool
}

// Sweep deletes the flows to services that have ended or have been silent for too long
// at now, of the monotonic clock, and corrects the number of flows of each interface.
// It returns the number of deleted flows.
func (c *Table) Sweep(now time.Duration) (removed int, err error) {
	return c.forgetAll(func(f *flow) bool { return f.expired(now) }, c.forget)
}

// Prune deletes the flows of removed services, and UDP flows to removed backends, whose
// clients would never notice the removal. now is the monotonic clock.
func (c *Table) Prune(left Services, now time.Duration) error {
	end := func(f *flow) error {
		if left.HasService(f.service()) {
			return c.move(f, now)
		}
		return c.forget(f)
	}
	_, err := c.forgetAll(func(f *flow) bool { return !f.hasEnd(left) }, end)
	return err
}

// Open allows an interface to have flows. Existing counters are left as they are.
func (c *Table) Open(ifindex uint32) error {
	for _, m := range []*ebpf.Map{c.ended, c.opened} {
		if err := m.Update(ifindex, uint32(0), ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return err
		}
	}
	return nil
}

// End deletes an interface's flows and its counters, if it has any.
func (c *Table) End(ifindex uint32) error {
	var opened uint32
	if err := c.opened.Lookup(ifindex, &opened); err == nil && opened != 0 {
		if _, err := c.forgetAll(func(f *flow) bool { return f.ifindex == ifindex }, c.forget); err != nil {
			return err
		}
	}
	for _, m := range []*ebpf.Map{c.ended, c.opened} {
		if err := m.Delete(ifindex); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

// forgetAll deletes the flows that have ended, and counts them.
func (c *Table) forgetAll(over func(*flow) bool, end func(*flow) error) (removed int, err error) {
	// Read before the entries: a flow opened in between counts once too often until the
	// next sweep, never too rarely.
	opened := map[uint32]uint32{}
	if err := bpf.ReadMap(c.opened, opened); err != nil {
		return 0, err
	}
	entries, err := readConnections(c.connections)
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
		if err := c.ended.Update(ifindex, n-held[ifindex], ebpf.UpdateExist); err != nil &&
			!errors.Is(err, ebpf.ErrKeyNotExist) {
			return removed, fmt.Errorf("write ended flows of device %d: %w", ifindex, err)
		}
	}
	return removed, nil
}

// forget deletes the entries of a flow, the forward one first: while that exists,
// packets are sent whose replies need the reverse entry.
func (c *Table) forget(f *flow) error {
	if f.hasForward {
		if err := c.remove(f.forward); err != nil {
			return err
		}
	}
	if !f.hasReverse {
		return nil
	}
	if err := c.remove(f.reverse); err != nil {
		return err
	}
	return c.removeHalf(f.forward)
}

// removeHalf deletes a forward entry without a reverse one. A program opens the flow again
// while its former entries are deleted, and loses its new reverse entry then. The next packet
// opens the flow once more. If the program is about to write the reverse entry, that one is
// left alone, which hinders no flow.
func (c *Table) removeHalf(forward bpf.AliothConnKey) error {
	var row, answers bpf.AliothConn
	err := c.connections.Lookup(forward, &row)
	if err == nil {
		if err = c.connections.Lookup(counterpart(forward, row), &answers); errors.Is(err, ebpf.ErrKeyNotExist) {
			return c.remove(forward)
		}
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("read connection: %w", err)
	}
	return nil
}

func (c *Table) remove(key bpf.AliothConnKey) error {
	if err := c.connections.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete connection: %w", err)
	}
	return nil
}

// move lets a flow select another backend with its next packet. Replies of the former
// backend may be on their way, and still get the Service's address: the reverse entry
// lives as long as half a pair does.
func (c *Table) move(f *flow, now time.Duration) error {
	if !f.hasForward {
		return nil
	}
	row := bpf.AliothConn{
		LastSeen: uint64(now),
		Addr:     f.forward.Peer,
		Port:     f.forward.PeerPort,
		Ifindex:  f.ifindex,
		Flags:    f.reverseFlags,
	}
	if f.forward.Inside != f.reverse.Inside {
		row.Outside = 1
	}
	if f.forward.PodPort != f.reverse.PodPort {
		row.PodPort = f.forward.PodPort
	}
	err := c.connections.Update(f.reverse, row, ebpf.UpdateExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("write connection: %w", err)
	}
	return c.remove(f.forward)
}
