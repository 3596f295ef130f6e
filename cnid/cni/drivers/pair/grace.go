// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// busyThreads is the limit of a busy node: the number of threads for each processor that run or
// wait for it.
//
// To add a filter to a qdisc, the kernel waits for a grace period of RCU while it holds its lock
// of all devices, unless a period has passed since the qdisc was added (mini_qdisc_pair_swap in
// net/sched/sch_generic.c). On a busy node the wait takes up to a third of a second, and all
// others wait for the lock meanwhile. So a driver waits for a period before that, without the
// lock. On a node that is not busy, the kernel's own wait is the shorter one.
const busyThreads = 8

// kernel is the part of the node's kernel that matters for grace periods.
type kernel interface {
	// busy reports whether the node is busy.
	busy() bool
	// wait waits for a grace period.
	wait()
}

// ownKernel is the kernel of the node.
type ownKernel struct{}

// busy implements kernel, by the number of its threads that run or wait for
// a processor (proc_loadavg(5), fourth field).
func (ownKernel) busy() bool {
	text, err := os.ReadFile("/proc/loadavg")
	return err == nil && isBusy(string(text), runtime.NumCPU())
}

func isBusy(loadavg string, processors int) bool {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return false
	}
	text, _, _ := strings.Cut(fields[3], "/")
	running, err := strconv.Atoi(text)
	return err == nil && running > busyThreads*processors
}

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL of membarrier(2).
const membarrierGlobal = 1

// wait returns after a grace period of RCU: MEMBARRIER_CMD_GLOBAL waits for one. A
// kernel that refuses (without membarrier, or with nohz_full) costs the caller nothing, and
// waits when the filter is added.
func (ownKernel) wait() { _, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0) }

// periods lets callers wait for grace periods together: one thread waits for all of them.
type periods struct {
	kernel

	mu sync.Mutex
	// next is closed after the period that begins next; nil if nobody asked for it.
	next chan struct{}
	// runs reports whether a goroutine waits for periods.
	runs bool
}

func newPeriods() *periods { return &periods{kernel: ownKernel{}} }

// filtersReady returns a channel that is closed when filters can be added to the qdiscs that
// exist now without a long hold of the kernel's lock of all devices.
func (p *periods) filtersReady() <-chan struct{} {
	if p.busy() {
		return p.after()
	}
	ready := make(chan struct{})
	close(ready)
	return ready
}

// after returns a channel that is closed after a grace period that began later than the call.
func (p *periods) after() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = make(chan struct{})
	}
	if !p.runs {
		p.runs = true
		go p.run()
	}
	return p.next
}

// run waits for periods until nobody asks for one.
func (p *periods) run() {
	for {
		p.mu.Lock()
		asked := p.next
		p.next = nil
		p.runs = asked != nil
		p.mu.Unlock()
		if asked == nil {
			return
		}
		p.wait()
		close(asked)
	}
}
