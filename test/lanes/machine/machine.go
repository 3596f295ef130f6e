// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package machine measures how much slower a machine is than the machine that the limits of tests'
// waits were made for.
package machine

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/waits"
)

// Figures are the properties that made tests slow on machines where their limits were too short.
type Figures struct {
	// Call is the time of a system call that does nothing.
	Call time.Duration
	// Page is the time of the first access to a page of memory, which is long where the host
	// emulates page tables.
	Page time.Duration
	// Process is the time from the start of a process to its end.
	Process time.Duration
	// Compute is the time of a fixed work on all processors at once, which is long where other
	// processes or other guests of the host use them.
	Compute time.Duration
}

// slowest is a machine whose factor is 1. An idle guest with two processors and page tables in
// hardware takes a third of each figure or less.
var slowest = Figures{
	Call:    time.Microsecond,
	Page:    3 * time.Microsecond,
	Process: 4 * time.Millisecond,
	Compute: 60 * time.Millisecond,
}

// Factor returns the factor for limits: the worst of the four ratios, as a power of two, so that
// small changes do not change it.
func (f Figures) Factor() int {
	ratio := max(
		over(f.Call, slowest.Call),
		over(f.Page, slowest.Page),
		over(f.Process, slowest.Process),
		over(f.Compute, slowest.Compute),
	)
	factor := 1
	for float64(factor) < ratio && factor < waits.Most {
		factor *= 2
	}
	return factor
}

func over(figure, bound time.Duration) float64 { return float64(figure) / float64(bound) }

// String returns the figures for people.
func (f Figures) String() string {
	return fmt.Sprintf(
		"a system call %s, a page %s, a process %s, a work on all processors %s",
		f.Call,
		f.Page,
		f.Process,
		f.Compute,
	)
}

const (
	// rounds is how often each figure is measured; the median counts.
	rounds = 5
	calls  = 20_000
	memory = 16 << 20
	// steps is how much one processor computes in a round.
	steps = 20_000_000
)

// Measure measures this machine, which takes less than a second on a fast one.
func Measure() (Figures, error) {
	var all [4][]time.Duration
	for range rounds {
		page, err := touch()
		if err != nil {
			return Figures{}, err
		}
		process, err := start()
		if err != nil {
			return Figures{}, err
		}
		for i, figure := range []time.Duration{call(), page, process, compute()} {
			all[i] = append(all[i], figure)
		}
	}
	for _, figures := range all {
		slices.Sort(figures)
	}
	return Figures{all[0][rounds/2], all[1][rounds/2], all[2][rounds/2], all[3][rounds/2]}, nil
}

func call() time.Duration {
	began := time.Now()
	for range calls {
		unix.Getppid()
	}
	return time.Since(began) / calls
}

// touch accesses new memory, page by page.
func touch() (time.Duration, error) {
	began := time.Now()
	pages, err := unix.Mmap(-1, 0, memory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return 0, fmt.Errorf("map memory: %w", err)
	}
	for at := 0; at < len(pages); at += unix.Getpagesize() {
		pages[at] = 1
	}
	took := time.Since(began) / time.Duration(memory/unix.Getpagesize())
	if err := unix.Munmap(pages); err != nil {
		return 0, fmt.Errorf("unmap memory: %w", err)
	}
	return took, nil
}

// start runs a process that does nothing.
func start() (time.Duration, error) {
	began := time.Now()
	if err := exec.Command("true").Run(); err != nil {
		return 0, fmt.Errorf("start a process: %w", err)
	}
	return time.Since(began), nil
}

// compute multiplies on all processors at once.
func compute() time.Duration {
	results := make([]uint64, runtime.GOMAXPROCS(0))
	began := time.Now()
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			value := uint64(i)
			for step := range uint64(steps) {
				value = value*6364136223846793005 + step
			}
			results[i] = value
		})
	}
	wg.Wait()
	return time.Since(began)
}
