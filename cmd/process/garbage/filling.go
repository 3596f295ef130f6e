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

// While the store is filled, the process has little in use and makes much garbage, of which
// each collection needs as much processor time as what is in use. So there is more garbage
// than later, up to a limit of the whole memory (docs/design/140).
const (
	fillingPercent = 200
	filledPercent  = 60
	// leastLimit is the limit of the memory while the store is filled, in bytes, unless so much
	// is in use that limitPercent of it is more.
	leastLimit   = 1200 << 20
	limitPercent = 125
	// adjustEvery is how often the limit follows the memory in use.
	adjustEvery = time.Second
)

// Filling limits the garbage of a process that fills a store first, such as the operator.
type Filling struct{}

// Limit sets how much garbage there may be until filled returns, and afterwards. It returns once
// it has set the second.
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

// limitFor is the limit of the memory for so much in use, in bytes.
func limitFor(used uint64) int64 {
	return max(leastLimit, int64(min(used, math.MaxInt64/limitPercent))*limitPercent/100)
}
