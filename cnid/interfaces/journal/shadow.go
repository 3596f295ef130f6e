// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/binary"
	"net/netip"
)

// NodeShadow returns the address of a shadow range that is the node's own: the
// one after the range's base address, which some stacks treat as a broadcast
// or anycast address. It returns the zero value for the zero prefix.
func NodeShadow(shadows netip.Prefix) netip.Addr {
	if !shadows.IsValid() {
		return netip.Addr{}
	}
	return shadows.Masked().Addr().Next()
}

// firstIndex is the index of the first address for pods: 0 is the base address and 1 is the
// node's own.
const firstIndex = 2

// size returns the number of indices of a range, without its last address, which is a broadcast
// address; at most 1<<32, which is enough for every node.
func size(shadows netip.Prefix) uint64 {
	bits := shadows.Addr().BitLen() - shadows.Bits()
	return 1<<min(bits, 32) - 1
}

// at returns the address with the given index in a range.
func at(shadows netip.Prefix, index uint64) netip.Addr {
	base := shadows.Masked().Addr()
	raw := base.As16()
	low := binary.BigEndian.Uint64(raw[8:])
	binary.BigEndian.PutUint64(raw[8:], low+index)
	addr := netip.AddrFrom16(raw)
	if base.Is4() {
		return addr.Unmap()
	}
	return addr
}

// shadowed returns the addresses that need a shadow address: the addresses of the datapath.
func shadowed(rec Record) []netip.Prefix {
	if !rec.Carried() {
		return nil
	}
	return rec.Addrs
}

// chooseShadows gives rec a shadow address for each family of its addresses. Both have one index
// that no other record has. Indices are assigned in a ring, so that another pod gets an address
// as late as possible: the node may still have connections of the last one.
func (j *Journal) chooseShadows(rec *Record, next *counters, others []Record) error {
	rec.Shadow4, rec.Shadow6 = netip.Addr{}, netip.Addr{}
	var ranges []netip.Prefix
	var fields []*netip.Addr
	for _, a := range shadowed(*rec) {
		shadows, field := j.cfg.Shadow6, &rec.Shadow6
		if a.Addr().Is4() {
			shadows, field = j.cfg.Shadow4, &rec.Shadow4
		}
		if shadows.IsValid() {
			ranges, fields = append(ranges, shadows), append(fields, field)
		}
	}
	if len(ranges) == 0 {
		return nil
	}
	index, err := freeIndex(ranges, next.Shadow, usedShadows(others))
	if err != nil {
		return err
	}
	for i, shadows := range ranges {
		*fields[i] = at(shadows, index)
	}
	next.Shadow = index
	return nil
}

// ownShadows reports whether a record's shadow addresses can stay: one for each
// family it has an address of, in the range of that family, and unused by others.
func (j *Journal) ownShadows(rec Record) bool {
	used := usedShadows(j.Records())
	for _, a := range shadowed(rec) {
		shadows, shadow := j.cfg.Shadow6, rec.Shadow6
		if a.Addr().Is4() {
			shadows, shadow = j.cfg.Shadow4, rec.Shadow4
		}
		if shadows.IsValid() && (!shadows.Contains(shadow) || used[shadow] || shadow == NodeShadow(shadows)) {
			return false
		}
	}
	return true
}

func usedShadows(records []Record) map[netip.Addr]bool {
	used := make(map[netip.Addr]bool, 2*len(records))
	for _, rec := range records {
		used[rec.Shadow4], used[rec.Shadow6] = true, true
	}
	return used
}

// freeIndex returns the first index behind last, in ring order, whose address is free
// in all ranges.
func freeIndex(ranges []netip.Prefix, last uint64, used map[netip.Addr]bool) (uint64, error) {
	end := size(ranges[0])
	for _, shadows := range ranges {
		end = min(end, size(shadows))
	}
	for tried := uint64(firstIndex); tried < end; tried++ {
		if last++; last < firstIndex || last >= end {
			last = firstIndex
		}
		if allFree(ranges, last, used) {
			return last, nil
		}
	}
	return 0, ErrShadowsExhausted
}

func allFree(ranges []netip.Prefix, index uint64, used map[netip.Addr]bool) bool {
	for _, shadows := range ranges {
		if used[at(shadows, index)] {
			return false
		}
	}
	return true
}
