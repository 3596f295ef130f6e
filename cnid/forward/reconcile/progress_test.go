// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/plan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

func TestDEL_BeforeFirstPass_NoWait(t *testing.T) {
	d := NewDatapath(&Progress{}, nil, plan.Config{}, nil)
	if err := d.Unprogram(t.Context(), journal.Record{}); err != nil {
		t.Errorf("Unprogram: %v", err)
	}
}

func TestSTATUS_EachFailure_OnlyLastingOnesFail(t *testing.T) {
	p := &Progress{}
	if err := p.Ready(); err != nil {
		t.Errorf("before the first pass: %v", err)
	}
	p.finish(outcome{err: errNoUnderlay})
	if err := p.Ready(); err != nil {
		t.Errorf("after one failure: %v", err)
	}
	p.failing = p.failing.Add(-lasting - time.Second)
	p.finish(outcome{err: errNoUnderlay})
	if err := p.Ready(); !errors.Is(err, errNoUnderlay) {
		t.Errorf("after failures for longer than %s: %v", lasting, err)
	}
	p.finish(outcome{})
	if err := p.Ready(); err != nil {
		t.Errorf("after a success: %v", err)
	}
}

func TestADD_OneDeviceFails_OnlyItsADDFails(t *testing.T) {
	p := &Progress{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p.finish(outcome{upTo: 5, failed: map[int]error{7: unix.EBUSY}})
	if err := p.settle(ended, 5, 7); !errors.Is(err, unix.EBUSY) {
		t.Errorf("the device's own: %v, want %v", err, unix.EBUSY)
	}
	if err := p.settle(ended, 5, 8); err != nil {
		t.Errorf("another's: %v", err)
	}
	if err := p.settle(ended, 5, 0); err != nil {
		t.Errorf("a DEL: %v", err)
	}
	if problem := p.Problem(); !strings.Contains(problem, unix.EBUSY.Error()) {
		t.Errorf("people are told %q", problem)
	}
	p.finish(outcome{upTo: 5})
	if err := p.settle(ended, 5, 7); err != nil || p.Problem() != "" {
		t.Errorf("once it is set up: %v, %q", err, p.Problem())
	}
}

func TestADD_DeviceLost_FailsWithoutRetry(t *testing.T) {
	p := &Progress{}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	last := outcome{
		upTo: 5,
		lost: []plan.Lost{{Record: journal.Record{Interface: journal.Interface{Device: journal.Device{HostIfindex: 7}}}, Reason: "10.10.1.10 is another's"}},
	}
	p.finish(last)
	if err := p.settle(ended, 5, 7); !errors.Is(err, plan.ErrLost) || !strings.Contains(err.Error(), "another's") {
		t.Errorf("its own: %v, want %v and why", err, plan.ErrLost)
	}
	if err := p.settle(ended, 5, 8); err != nil {
		t.Errorf("another's: %v", err)
	}
	if last.failure() != nil {
		t.Errorf("the pass counts as failed: %v", last.failure())
	}
}

func TestSTATUS_SingleDeviceFails_Succeeds(t *testing.T) {
	p := &Progress{}
	p.finish(outcome{failed: map[int]error{7: unix.EBUSY}})
	p.failing = time.Now().Add(-2 * lasting)
	p.finish(outcome{failed: map[int]error{7: unix.EBUSY}})
	if err := p.Ready(); err != nil {
		t.Errorf("after failures of one device: %v", err)
	}
}
