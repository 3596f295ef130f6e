// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"path/filepath"
	"sync/atomic"
	"testing"
)

// BenchmarkADD measures the writes of one ADD, and of the DEL that ends it, on a node with 100
// other pods: one after the other, and as in a wave.
func BenchmarkADD(b *testing.B) {
	for name, run := range map[string]func(*testing.B, func()){
		"one": func(b *testing.B, once func()) {
			b.Helper()
			for b.Loop() {
				once()
			}
		},
		"wave": func(b *testing.B, once func()) {
			b.Helper()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					once()
				}
			})
		},
	} {
		b.Run(name, func(b *testing.B) {
			j := open(b, testConfig(filepath.Join(b.TempDir(), "journal")))
			for i := range 100 {
				begin(b, j, testRecord(i))
			}
			var last atomic.Int64
			last.Store(1000)
			run(b, func() {
				key := begin(b, j, testRecord(int(last.Add(1)))).Key
				if _, err := j.Complete(key, Device{HostIfindex: 7}); err != nil {
					b.Error(err)
				}
			})
		})
	}
}

// BenchmarkDEL measures the writes of one DEL.
func BenchmarkDEL(b *testing.B) {
	j := open(b, testConfig(filepath.Join(b.TempDir(), "journal")))
	for i := range 100 {
		begin(b, j, testRecord(i))
	}
	for i := 1000; b.Loop(); i++ {
		b.StopTimer()
		rec := begin(b, j, testRecord(i))
		b.StartTimer()
		if _, err := j.Leave(rec.Key); err != nil {
			b.Fatal(err)
		}
		if err := j.Retire(rec.Key); err != nil {
			b.Fatal(err)
		}
		if err := j.Released(rec.Seq); err != nil {
			b.Fatal(err)
		}
	}
}
