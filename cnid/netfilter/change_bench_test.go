// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"slices"
	"testing"
	"time"

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
		var took, changes []time.Duration
		for n := 0; b.Loop(); n++ {
			want := last
			want.Frontends = slices.Clone(last.Frontends)
			at := (7 * n) % 5000
			now := *want.Frontends[at]
			now.All = last.Frontends[(at+1+n%50)%5000].Here[n%2:]
			want.Frontends[at] = &now
			began := time.Now()
			if want.Equal(last) {
				b.Fatal("a change is none")
			}
			before := time.Now()
			if err := table.Change(want); err != nil {
				return err
			}
			changes = append(changes, time.Since(before))
			SameUDP(last, want)
			took = append(took, time.Since(began))
			last = want
		}
		slices.Sort(took)
		slices.Sort(changes)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, "p99-ms")
		b.ReportMetric(float64(changes[len(changes)/2].Microseconds())/1e3, "Change-p50-ms")
		b.ReportMetric(float64(changes[len(changes)*99/100].Microseconds())/1e3, "Change-p99-ms")
		return nil
	})
}
