// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package heap sets how much garbage a process may have, by what it has in use.
package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// mostPercent is the most for a small process, and Go's default.
const mostPercent = 100

// InUse is what the last collection found in use, in bytes.
func InUse() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// LimitGarbage lets the process have garbage up to a percentage of what is in use, or up to
// least bytes, but not more of these than are in use. With a percentage alone a small process
// collects often: the less is in use, the sooner the next collection comes.
func LimitGarbage(percent int, least uint64) {
	(&limit{percent: percent, least: least}).adjust()
}

type limit struct {
	percent int
	least   uint64
	set     int
}

// adjust sets the percentage for what is in use, now and after each collection.
func (l *limit) adjust() {
	if percent := l.of(InUse()); percent != l.set {
		debug.SetGCPercent(percent)
		l.set = percent
	}
	// The next collection finds the object unused. It is too large for the runtime to allocate
	// it together with others.
	runtime.AddCleanup(new([4]*limit), (*limit).adjust, l)
}

// of is the percentage for so many bytes in use.
func (l *limit) of(used uint64) int {
	if used == 0 {
		return mostPercent
	}
	return max(l.percent, int(min(l.least*100/used, mostPercent)))
}
