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

// Table is the node's table of flows to services. The programs open flows, the Table ends them.
// Its methods must not be called concurrently.
type Table struct {
	counted
	connections *ebpf.Map
}

// New returns the table that is in these maps.
func New(in bpf.Maps) *Table {
	t := &Table{connections: in[bpf.ConnectionsMap]}
	t.counted = counted{opened: in[bpf.OpenedMap], ended: in[bpf.EndedMap], in: t}
	return t
}

// Services are the services that flows may lead to.
type Services interface {
	// HasService reports whether there is such a port of a virtual address.
	HasService(key bpf.AliothServiceKey) bool
	// HasBackend reports whether the service is there and has the backend.
	HasBackend(key bpf.AliothServiceKey, backend bpf.AliothBackend) bool
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

// read copies the flows.
func (c *Table) read() (map[bpf.AliothConnKey]*flow, error) {
	entries, err := readEntries[bpf.AliothConn](c.connections)
	return pairFlows(entries), err
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

func (c *Table) remove(key bpf.AliothConnKey) error { return removeEntry(c.connections, key) }

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
