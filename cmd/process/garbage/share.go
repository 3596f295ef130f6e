// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package garbage

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// percentOfNode and leastOfNode, in bytes, limit the garbage of the daemon. The daemon uses memory
// of the node, which pods could use, and has little to do most of the time. So it rather collects
// often (docs/design/062).
const percentOfNode, leastOfNode = 15, 8 << 20

// SaveMemory limits the garbage of a daemon of a node, unless the environment has another value.
func SaveMemory() {
	if os.Getenv("GOGC") == "" {
		limitGarbage(percentOfNode, leastOfNode)
	}
}

// mostPercent is the most for a small process, and Go's default.
const mostPercent = 100

// inUse returns how many bytes the last collection found in use.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// limitGarbage lets the process have garbage up to a percentage of the memory in use, or up to
// least bytes, but not more of these than are in use. With a percentage alone a small process
// collects often: the less memory is in use, the sooner the next collection comes.
func limitGarbage(percent int, least uint64) {
	(&limit{percent: percent, least: least}).adjust()
}

type limit struct {
	percent int
	least   uint64
	set     int
}

// adjust sets the percentage for the memory in use, now and after each collection.
func (l *limit) adjust() {
	if percent := l.of(inUse()); percent != l.set {
		debug.SetGCPercent(percent)
		l.set = percent
	}
	// The next collection finds the object unused. It is too large for the runtime to allocate
	// it together with others.
	runtime.AddCleanup(new([4]*limit), (*limit).adjust, l)
}

// of returns the percentage for a number of bytes in use.
func (l *limit) of(used uint64) int {
	if used == 0 {
		return mostPercent
	}
	return max(l.percent, int(min(l.least*100/used, mostPercent)))
}
