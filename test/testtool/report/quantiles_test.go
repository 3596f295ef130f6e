// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantiles_EachSeries_NearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	tests := map[string]struct {
		series []time.Duration
		want   Quantiles
	}{
		"an empty series is all zero":  {nil, Quantiles{}},
		"one value is every quantile":  {[]time.Duration{7}, Quantiles{7, 7, 7, 7, 7}},
		"an unsorted series is sorted": {hundred, Quantiles{Min: 1, Mean: 50, P50: 50, P99: 99, Max: 100}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, QuantilesOf(tt.series)); diff != "" {
				t.Errorf("quantiles (-want +got):\n%s", diff)
			}
		})
	}
}
