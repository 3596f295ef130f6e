// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package periodic_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alioth-net/alioth/cnid/system/periodic"
)

// The clock of the bubble advances only while all its goroutines wait, so counts at a
// time are exact.
func TestPeriodicRun_IntervalsAndSignals_CallsUntilCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		early := make(chan struct{})
		calls, ended := 0, make(chan struct{})
		go func() {
			defer close(ended)
			periodic.Run(ctx, time.Minute, early, func() { calls++ })
		}()
		expect := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if calls != want {
				t.Errorf("%s: %d calls, want %d", when, calls, want)
			}
		}
		expect("at the start", 0)
		<-time.After(time.Minute)
		expect("after an interval", 1)
		early <- struct{}{}
		expect("after an early element", 2)
		<-time.After(2 * time.Minute)
		expect("after two more intervals", 4)
		cancel()
		<-ended
		<-time.After(time.Hour)
		expect("after the end of the context", 4)
	})
}

func TestPeriodicRun_NoEarlyChannel_Runs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		go periodic.Run(ctx, time.Second, nil, func() {
			if calls++; calls == 3 {
				cancel()
			}
		})
		<-time.After(10 * time.Second)
		synctest.Wait()
		if calls != 3 {
			t.Errorf("%d calls before the context ended in the third", calls)
		}
	})
}
