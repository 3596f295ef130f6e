// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"

	"github.com/alioth-net/alioth/test/bench/metrics"
)

func TestHistograms_Family_GroupedByLabel(t *testing.T) {
	const text = `# TYPE passes histogram
passes_bucket{step="total",result="ok",le="+Inf"} 3
passes_sum{step="total",result="ok"} 1.5
passes_count{step="total",result="ok"} 3
passes_bucket{step="total",result="error",le="+Inf"} 1
passes_sum{step="total",result="error"} 0.5
passes_count{step="total",result="error"} 1
passes_bucket{step="plan",result="total",le="+Inf"} 7
passes_sum{step="plan",result="total"} 9
passes_count{step="plan",result="total"} 7
# TYPE others histogram
others_bucket{step="total",le="+Inf"} 9
others_sum{step="total"} 9
others_count{step="total"} 9
`
	all, err := metrics.Histograms(text, "passes", "step")
	if err != nil {
		t.Fatal(err)
	}
	var count uint64
	var sum float64
	for _, h := range all["total"] {
		count += h.GetSampleCount()
		sum += h.GetSampleSum()
	}
	if len(all) != 2 || count != 4 || sum != 2 {
		t.Errorf("%d values of the label, %d passes in %g s; want 2 values, 4 passes in 2 s", len(all), count, sum)
	}
	if _, err := metrics.Histograms("passes 1 2 3", "passes", "step"); err == nil {
		t.Error("a broken text is no error")
	}
}
