// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"fmt"
	"testing"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// Whose returns the drops as "device VNI direction/reason" -> packets.
func Whose(t testing.TB, d *Datapath) map[string]uint64 {
	t.Helper()
	counters, err := d.DropCounters()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint64{}
	for _, c := range counters {
		m[fmt.Sprintf("%d %d %s/%s", c.Ifindex, c.VNI, c.Direction, c.Reason)] = c.Packets
	}
	return m
}

// Counts returns all counters as "direction/reason" -> packets.
func Counts(t testing.TB, d *Datapath) map[string]uint64 {
	t.Helper()
	counters, err := d.Counters()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint64{}
	for _, c := range counters {
		m[fmt.Sprintf("%s/%s", c.Direction, c.Reason)] = c.Packets
	}
	return m
}

// CountedTwice returns the drops of all devices and VPCs, as counts does.
func CountedTwice(t testing.TB, d *Datapath) map[string]uint64 {
	t.Helper()
	counters, err := d.DropCounters()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]uint64{}
	for _, c := range counters {
		m[fmt.Sprintf("%s/%s", c.Direction, c.Reason)] += c.Packets
	}
	return m
}

// OnlyDrops leaves out the counters of packets that went on.
func OnlyDrops(counted map[string]uint64) map[string]uint64 {
	drops := map[string]uint64{}
	for reason := range telemetry.Reason(bpf.AliothReasonREASON_LEN) {
		for direction := range telemetry.Direction(bpf.AliothDirectionDIRECTION_LEN) {
			name := fmt.Sprintf("%s/%s", direction, reason)
			if n, ok := counted[name]; ok && reason.Drop() {
				drops[name] = n
			}
		}
	}
	return drops
}

// Added returns the counters that a step has added to.
func Added(before, after map[string]uint64) map[string]uint64 {
	diff := map[string]uint64{}
	for k, n := range after {
		if n != before[k] {
			diff[k] = n - before[k]
		}
	}
	return diff
}
