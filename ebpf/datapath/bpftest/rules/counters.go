// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// counters reads all counts by their index, in one call for the sake of speed.
func (r *Rules) counters(t testing.TB) []uint64 {
	t.Helper()
	m, cpus := r.W.Objects.AliothCounters, ebpf.MustPossibleCPU()
	keys, values := make([]uint32, m.MaxEntries()), make([]bpf.AliothCounter, int(m.MaxEntries())*cpus)
	var cursor ebpf.MapBatchCursor
	n, err := m.BatchLookup(&cursor, keys, values, nil)
	if n != len(keys) {
		t.Fatalf("read %d of %d counters: %v", n, len(keys), err)
	}
	counts := make([]uint64, n)
	for i, v := range values {
		counts[keys[i/cpus]] += v.Packets
	}
	return counts
}

// counted returns the only counter that has moved since the last call. none reports that no counter
// has moved.
func (r *Rules) counted(t testing.TB) (found telemetry.Counter, none bool, err error) {
	t.Helper()
	now := r.counters(t)
	defer func() { r.last = now }()
	none = true
	for index, n := range now {
		if n == r.last[index] {
			continue
		}
		if n != r.last[index]+1 || !none {
			return found, false, fmt.Errorf(
				"the counter %d has moved from %d to %d, and more than one may have",
				index,
				r.last[index],
				n,
			)
		}
		found.Reason = telemetry.Reason(index / int(bpf.AliothDirectionDIRECTION_LEN))
		found.Direction = telemetry.Direction(index % int(bpf.AliothDirectionDIRECTION_LEN))
		none = false
	}
	return found, none, nil
}

// CheckSum checks that every frame that was decided has one count.
func (r *Rules) CheckSum(t testing.TB) {
	t.Helper()
	var sum uint64
	for _, n := range r.counters(t) {
		sum += n
	}
	if sum != r.tried {
		t.Errorf("%d frames were decided and %d counted", r.tried, sum)
	}
}
