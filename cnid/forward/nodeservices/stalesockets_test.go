// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeservices

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
)

// noRecords stands for a node without attachments.
type noRecords struct{}

func (noRecords) Records() []journal.Record { return nil }

// TestStaleSockets_EachPass_SearchedOnlyAfterChanges: at once, once more for sockets that were
// connecting, and until a search succeeds. The clock advances only while all goroutines
// wait, so counts at a time are exact.
func TestStaleSockets_EachPass_SearchedOnlyAfterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		searches, fails := 0, false
		changed := make(chan struct{}, 1)
		s := NewStaleSockets(func() ([]connections.StaleSocket, error) {
			searches++
			if fails {
				return nil, errors.New("no memory")
			}
			return nil, nil
		}, changed, 1, noRecords{}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Run(ctx)
		}()
		expect := func(when string, wait time.Duration, want int) {
			t.Helper()
			<-time.After(wait)
			synctest.Wait()
			if searches != want {
				t.Errorf("%s: %d searches, want %d", when, searches, want)
			}
		}
		expect("a while after the start", time.Minute, 1)
		changed <- struct{}{}
		expect("at a change", time.Millisecond, 2)
		expect("after a change", time.Minute, 3)
		fails = true
		changed <- struct{}{}
		expect("while searches fail", 4*lookAgain+time.Second, 8)
		fails = false
		expect("when they succeed again", time.Minute, 9)
		cancel()
		<-ended
	})
}
