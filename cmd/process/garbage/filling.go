// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package garbage

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"time"
)

// While the store is filled, the process has little memory in use and makes much garbage. Each
// collection takes as much processor time as the memory in use requires. So there is more garbage
// than later, up to a limit of the whole memory (docs/design/140).
const (
	fillingPercent = 200
	filledPercent  = 60
	// leastLimit is the limit of the memory while the store is filled, in bytes. If limitPercent of
	// the memory in use is more, that is the limit.
	leastLimit   = 1200 << 20
	limitPercent = 125
	// adjustEvery is how often the limit follows the memory in use.
	adjustEvery = time.Second
)

// Filling limits the garbage of a process that fills a store first, such as the operator.
type Filling struct{}

// Limit limits the garbage while filled runs, and sets another limit afterwards. It returns once
// the second limit is set.
func (Filling) Limit(ctx context.Context, filled func(context.Context) error) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	ctx, end := context.WithCancel(ctx)
	go func() {
		defer end()
		_ = filled(ctx) // it fails where ctx ends
	}()
	tick := time.NewTicker(adjustEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		debug.SetGCPercent(fillingPercent)
		debug.SetMemoryLimit(limitFor(inUse()))
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	debug.SetGCPercent(filledPercent)
	debug.SetMemoryLimit(math.MaxInt64)
}

// limitFor returns the limit of the memory, in bytes, for a number of bytes in use.
func limitFor(used uint64) int64 {
	return max(leastLimit, int64(min(used, math.MaxInt64/limitPercent))*limitPercent/100)
}
