// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package garbage

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestShare_BytesInUse_PercentOrLeast(t *testing.T) {
	l := &limit{percent: 15, least: 8 << 20}
	for used, want := range map[uint64]int{
		0: 100, 1: 100, 8 << 20: 100, 16 << 20: 50, 40 << 20: 20, 54 << 20: 15, 100 << 20: 15, math.MaxUint64: 15,
	} {
		if got := l.of(used); got != want {
			t.Errorf("%d bytes in use: %d %%, want %d", used, got, want)
		}
	}
}

// TestPercentage_MemoryInUse_Followed collects until the percentage has followed.
func TestPercentage_MemoryInUse_Followed(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	settles := func(what string, wanted func(percent int) bool) {
		t.Helper()
		for range 10_000 {
			runtime.GC()
			percent := debug.SetGCPercent(100)
			debug.SetGCPercent(percent)
			if wanted(percent) {
				return
			}
			runtime.Gosched()
		}
		t.Errorf("%s: the percentage does not follow", what)
	}
	limitGarbage(15, 8<<20)
	settles("little in use", func(percent int) bool { return percent > 15 })
	large := make([]byte, 128<<20)
	settles("much in use", func(percent int) bool { return percent == 15 })
	runtime.KeepAlive(large)
	settles("little again", func(percent int) bool { return percent > 15 })
}
