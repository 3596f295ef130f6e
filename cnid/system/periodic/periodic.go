// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package periodic calls functions at intervals.
package periodic

import (
	"context"
	"time"
)

// Run calls do after each interval, and after each element of early, until ctx ends. It
// does not call do at the start. early may be nil.
func Run(ctx context.Context, every time.Duration, early <-chan struct{}, do func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-early:
		}
		do()
	}
}
