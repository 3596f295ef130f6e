// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"time"
)

// QuantilesOf sums up a series of durations. It sorts the slice in place.
func QuantilesOf(series []time.Duration) Quantiles {
	if len(series) == 0 {
		return Quantiles{}
	}
	slices.Sort(series)
	var sum time.Duration
	for _, d := range series {
		sum += d
	}
	return Quantiles{
		Min:  series[0],
		Mean: sum / time.Duration(len(series)),
		P50:  quantile(series, 50),
		P99:  quantile(series, 99),
		Max:  series[len(series)-1],
	}
}

// quantile takes the nearest-rank percentile of a sorted, non-empty series.
func quantile(sorted []time.Duration, percent int) time.Duration {
	rank := (len(sorted)*percent + 99) / 100
	return sorted[max(rank, 1)-1]
}
