// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
)

// BenchmarkAChangedFrontend changes one of 5,000 frontends, and has it written as the
// daemon does. Run it with -benchtime 300x.
func BenchmarkAChangedFrontend(b *testing.B) {
	testnet.In(b, testnet.New(b), func() error {
		last := testState()
		last.Frontends = inOrder(manyFrontends(5000)...)
		var table Table
		if _, err := table.Apply(last); err != nil {
			return err
		}
		var took, processor []time.Duration
		for n := 0; b.Loop(); n++ {
			want := last
			want.Frontends = slices.Clone(last.Frontends)
			at := (7 * n) % 5000
			now := *want.Frontends[at]
			now.All = last.Frontends[(at+1+n%50)%5000].Here[n%2:]
			want.Frontends[at] = &now
			began, ran := time.Now(), processorTime(b)
			if want.Equal(last) {
				b.Fatal("a change is none")
			}
			if err := table.Change(want); err != nil {
				return err
			}
			if _, err := Forget(&last, want); err != nil {
				return err
			}
			took, processor = append(took, time.Since(began)), append(processor, processorTime(b)-ran)
			last = want
		}
		report(b, "", took)
		report(b, "cpu-", processor)
		return nil
	})
}

func report(b *testing.B, what string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, what+"p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, what+"p99-ms")
}

// processorTime returns the CPU time of this thread, which does not depend on the load of the
// machine.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
