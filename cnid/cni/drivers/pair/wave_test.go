// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/veth"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// BenchmarkWave attaches many pods at once while others keep the kernel's lock of
// all devices busy, as a runtime does that makes network namespaces.
func BenchmarkWave(b *testing.B) {
	const pods = 60
	var p50, longest []float64
	for b.Loop() {
		b.StopTimer()
		n := newNode(b, veth.Devices)
		specs := make([]ifdriver.Spec, pods)
		for i := range specs {
			specs[i] = spec(netnstest.New(b), fmt.Sprintf("10.10.1.%d/24", i+2), fmt.Sprintf("fd10:10:0:1::%x/64", i+2))
			specs[i].ContainerID = fmt.Sprintf("container%d", i)
		}
		stop := makeNamespaces(3)
		b.StartTimer()
		took := attachAll(b, n, specs)
		b.StopTimer()
		stop()
		p50, longest = append(p50, took[pods/2].Seconds()*1e3), append(longest, took[pods-1].Seconds()*1e3)
		b.StartTimer()
	}
	b.ReportMetric(median(p50), "p50-ms")
	b.ReportMetric(median(longest), "longest-ms")
}

// attachAll returns the duration of each attachment, the fastest first.
func attachAll(b *testing.B, n node, specs []ifdriver.Spec) []time.Duration {
	b.Helper()
	took, errs := make([]time.Duration, len(specs)), make([]error, len(specs))
	var wg sync.WaitGroup
	for i, s := range specs {
		wg.Go(func() {
			start := time.Now()
			_, errs[i] = n.attacher.Attach(b.Context(), s)
			took[i] = time.Since(start)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	return took
}

// makeNamespaces makes network namespaces, some at a time, until stop is called.
func makeNamespaces(atOnce int) (stop func()) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for {
				select {
				case <-end:
					return
				case <-oneNamespace():
				}
			}
		})
	}
	return func() { close(end); wg.Wait() }
}

// oneNamespace makes a network namespace that ends at once, with its thread.
func oneNamespace() <-chan struct{} {
	made := make(chan struct{})
	go func() {
		defer close(made)
		runtime.LockOSThread()
		_ = unix.Unshare(unix.CLONE_NEWNET) // it is only about the time
	}()
	return made
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
