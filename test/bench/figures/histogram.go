// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"math"
	"slices"
)

// Histogram is a cumulative one, as Prometheus keeps it: how many observations
// were at most each upper bound.
type Histogram map[float64]float64

// Add adds another histogram with the same bounds.
func (h Histogram) Add(other Histogram, sign float64) {
	for bound, count := range other {
		h[bound] += sign * count
	}
}

// Count returns the number of observations.
func (h Histogram) Count() float64 {
	var most float64
	for _, count := range h {
		most = max(most, count)
	}
	return most
}

// Quantile q (0 to 1), interpolated within its bucket; NaN for an empty
// histogram. Above the last finite bound it is that bound.
func (h Histogram) Quantile(q float64) float64 {
	total := h.Count()
	if total == 0 {
		return math.NaN()
	}
	var bounds []float64
	for bound := range h {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	rank, lower, below := q*total, 0.0, 0.0
	for _, bound := range bounds {
		if math.IsInf(bound, 1) {
			return lower
		}
		if h[bound] >= rank {
			return lower + (bound-lower)*(rank-below)/(h[bound]-below)
		}
		lower, below = bound, h[bound]
	}
	return lower
}
