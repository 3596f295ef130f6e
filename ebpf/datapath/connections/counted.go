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

// counted are the flows of a table, and the interfaces' counters of them.
type counted struct {
	opened, ended *ebpf.Map
	in            entries
}

// entries are the entries of a table.
type entries interface {
	// read copies the flows.
	read() (map[bpf.AliothConnKey]*flow, error)
	// forget deletes the entries of a flow.
	forget(f *flow) error
}

// Sweep deletes the flows that have ended or have been silent for too long
// at now, of the monotonic clock, and corrects the number of flows of each interface.
// It returns the number of deleted flows.
func (c *counted) Sweep(now time.Duration) (removed int, err error) {
	return c.forgetAll(func(f *flow) bool { return f.expired(now) }, c.in.forget)
}

// Open allows an interface to have flows. Existing counters are left as they are.
func (c *counted) Open(ifindex uint32) error {
	for _, m := range []*ebpf.Map{c.ended, c.opened} {
		if err := m.Update(ifindex, uint32(0), ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return err
		}
	}
	return nil
}

// End deletes an interface's flows and its counters, if it has any.
func (c *counted) End(ifindex uint32) error {
	var opened uint32
	if err := c.opened.Lookup(ifindex, &opened); err == nil && opened != 0 {
		if _, err := c.forgetAll(func(f *flow) bool { return f.ifindex == ifindex }, c.in.forget); err != nil {
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
func (c *counted) forgetAll(over func(*flow) bool, end func(*flow) error) (removed int, err error) {
	// Read before the entries: a flow opened in between counts once too often until the
	// next sweep, never too rarely.
	opened := map[uint32]uint32{}
	if err := bpf.ReadMap(c.opened, opened); err != nil {
		return 0, err
	}
	flows, err := c.in.read()
	if err != nil {
		return 0, err
	}
	held := map[uint32]uint32{}
	for _, f := range flows {
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

// removeEntry deletes an entry of a table of flows, if it is there.
func removeEntry(m *ebpf.Map, key bpf.AliothConnKey) error {
	if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete flow of %s: %w", m, err)
	}
	return nil
}

// readEntries copies a table while programs change it. Lookups in batches see each bucket as a
// whole, so no lasting entry is missed.
func readEntries[V any](m *ebpf.Map) (map[bpf.AliothConnKey]V, error) {
	entries := map[bpf.AliothConnKey]V{}
	return entries, bpf.ReadMap(m, entries)
}
