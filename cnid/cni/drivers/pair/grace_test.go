// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// waiting is a kernel whose periods take as long as a function.
type waiting struct {
	period func()
	isBusy bool
}

func (w waiting) wait() { w.period() }

func (w waiting) busy() bool { return w.isBusy }

// TestGracePeriod_SeveralCallers_EachAwaitsLaterPeriod: a period that runs already may have begun
// before the caller's qdisc was added.
func TestGracePeriod_SeveralCallers_EachAwaitsLaterPeriod(t *testing.T) {
	var begun atomic.Int32
	enter, leave := make(chan struct{}), make(chan struct{})
	p := &periods{kernel: waiting{period: func() {
		begun.Add(1)
		enter <- struct{}{}
		<-leave
	}}}
	first := p.after()
	<-enter // the first period runs
	second, third := p.after(), p.after()
	if second != third {
		t.Error("two that wait for the same period have channels of their own")
	}
	leave <- struct{}{}
	<-first
	<-enter
	select {
	case <-second:
		t.Error("the period that ran at the call counts")
	default:
	}
	leave <- struct{}{}
	<-second
	last := p.after() // also where the goroutine has just ended
	<-enter
	leave <- struct{}{}
	<-last
	if got := begun.Load(); got != 3 {
		t.Errorf("%d periods, want 3", got)
	}
}

// TestGracePeriod_FilterWait_OnlyOnBusyNode: on others the kernel's own wait is the shorter one.
func TestGracePeriod_FilterWait_OnlyOnBusyNode(t *testing.T) {
	for _, busy := range []bool{false, true} {
		leave := make(chan struct{})
		p := &periods{kernel: waiting{period: func() { <-leave }, isBusy: busy}}
		ready := p.filtersReady()
		select {
		case <-ready:
			if busy {
				t.Error("filters do not wait on a busy node")
			}
		default:
			if !busy {
				t.Error("filters wait on a node that is not busy")
			}
		}
		close(leave)
		<-ready
	}
}

func TestKernel_GracePeriods_Offered(t *testing.T) {
	const query = 0 // MEMBARRIER_CMD_QUERY
	offered, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, query, 0, 0)
	if errno != 0 {
		t.Skipf("this kernel has no membarrier: %v", errno)
	}
	if offered&membarrierGlobal == 0 {
		t.Skip("this kernel offers no MEMBARRIER_CMD_GLOBAL: some processors have no ticks (nohz_full)")
	}
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		t.Errorf("membarrier: %v", errno)
	}
}

func TestBusyNode_ThreadCount_Recognized(t *testing.T) {
	for loadavg, want := range map[string]bool{
		"0.20 0.18 0.12 16/900 11206": false, "9.20 0.18 0.12 17/900 11206": true,
		"": false, "0.20 0.18 0.12": false, "0.20 0.18 0.12 many/900 1": false,
	} {
		if got := isBusy(loadavg, 2); got != want {
			t.Errorf("with %q the node is busy: %t, want %t", loadavg, got, want)
		}
	}
}
