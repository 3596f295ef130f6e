// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver_test

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkAddInAWave reports the median and the 99th percentile of the
// daemon's own work while 30 pods come at once, as on a node that was drained
// and is filled again.
func BenchmarkAddInAWave(b *testing.B) {
	const pods = 30
	r := newRig(b)
	wave := make([]pod, pods)
	for i := range wave {
		wave[i] = r.newPod(b, i+1)
	}
	var took []time.Duration
	for b.Loop() {
		one := make([]time.Duration, pods)
		var wg sync.WaitGroup
		for i, p := range wave {
			wg.Go(func() {
				start := time.Now()
				if resp := r.server.Do(b.Context(), p.request("ADD")); resp.Error != nil {
					b.Errorf("ADD: %v", resp.Error)
				}
				one[i] = time.Since(start)
			})
		}
		wg.Wait()
		b.StopTimer()
		took = append(took, one...)
		for _, p := range wave {
			r.del(b, p)
		}
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
