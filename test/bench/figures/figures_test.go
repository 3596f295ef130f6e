// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

func TestMedian_EachSeries_MiddleValue(t *testing.T) {
	tests := map[string]struct {
		series Series
		want   float64
	}{
		"of none":         {nil, 0},
		"of an odd count": {Series{3, 1, 2}, 2},
		"of an even one":  {Series{4, 1, 3, 2}, 2.5},
	}
	for name, tt := range tests {
		if got := tt.series.Median(); got != tt.want {
			t.Errorf("%s: %g, want %g", name, got, tt.want)
		}
	}
}

func TestQuantile_Series_IsMeasurement(t *testing.T) {
	series := Series{}
	for i := 60; i > 0; i-- {
		series = append(series, float64(i))
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 30, 0.99: 60, 1: 60} {
		if got := series.Quantile(q); got != want {
			t.Errorf("quantile %g: %g, want %g", q, got, want)
		}
	}
	if got := (Series{}).Quantile(0.5); got != 0 {
		t.Errorf("of none: %g", got)
	}
}

func TestBar_Missed_PercentNamed(t *testing.T) {
	tests := map[string]struct {
		bar   Bar
		ratio float64
		want  string
	}{
		"cleared from above": {Bar{AtLeast: 0.7}, 0.7, "PASS"},
		"missed from below":  {Bar{AtLeast: 0.8}, 0.6, "MISS by 25 %"},
		"cleared from below": {Bar{AtMost: 1.1}, 1.1, "PASS"},
		"missed from above":  {Bar{AtMost: 1}, 1.5, "MISS by 50 %"},
		"no bar":             {Bar{}, 5, ""},
		"nothing measured":   {Bar{AtMost: 1}, 0, "no figure"},
		"nothing wanted":     {Bar{Zero: true}, 0, "PASS"},
		"something unwanted": {Bar{Zero: true}, 0.5, "MISS"},
	}
	for name, tt := range tests {
		if got := tt.bar.Check(tt.ratio); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestZeroBar_NoMeasurement_NotCleared(t *testing.T) {
	measured, missing := NewRow("unwanted", "1", "%.0f", Bar{Zero: true}), NewRow("not measured", "1", "%.0f", Bar{Zero: true})
	measured.Add(Alioth, 0)
	var out strings.Builder
	if err := Print(&out, "title", []string{Alioth}, []*Row{measured, missing}); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "PASS") != 1 || strings.Count(out.String(), "no figure") != 1 {
		t.Errorf("want one bar cleared and one without a figure:\n%s", out.String())
	}
}

func TestHistogramQuantile_BetweenBuckets_Interpolated(t *testing.T) {
	h := Histogram{0.01: 0, 0.02: 50, 0.04: 90, math.Inf(1): 100}
	tests := map[float64]float64{0.25: 0.015, 0.5: 0.02, 0.7: 0.03, 0.99: 0.04}
	for q, want := range tests {
		if got := h.Quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if got := (Histogram{}).Quantile(0.5); !math.IsNaN(got) {
		t.Errorf("quantile of nothing is %g, want NaN", got)
	}
}

func TestHistogramAdd_EarlierReading_Subtracted(t *testing.T) {
	after := Histogram{1: 10, math.Inf(1): 20}
	after.Add(Histogram{1: 4, math.Inf(1): 4}, -1)
	if after[1] != 6 || after.Count() != 16 {
		t.Errorf("difference is %v", after)
	}
}

func TestPrint_SeveralBars_LineForEach(t *testing.T) {
	row := &Row{What: "stream", Unit: "Gbit/s", Format: "%.1f", Subject: "Alioth", Bars: []Bar{
		{Reference: "node", AtLeast: 0.7}, {Reference: "bridge", AtLeast: 1.05},
	}}
	for path, value := range map[string]float64{"node": 10, "bridge": 5, "Alioth": 6} {
		row.Add(path, value)
	}
	plain := &Row{What: "ADD p50", Unit: "ms", Format: "%.0f", Subject: "Alioth", Bars: []Bar{{AtMost: 15}}}
	plain.Add("Alioth", 20)
	var out bytes.Buffer
	if err := Print(&out, "Title", []string{"node", "bridge", "Alioth"}, []*Row{row, plain}); err != nil {
		t.Fatal(err)
	}
	fields := func(i int) string { return strings.Join(strings.Fields(strings.Split(out.String(), "\n")[i]), " ") }
	for i, want := range map[int]string{
		2: "node bridge Alioth ratio to bar",
		3: "stream, Gbit/s 10.0 5.0 6.0 0.60 node >= 0.70 MISS by 14 %",
		4: "1.20 bridge >= 1.05 PASS",
		5: "ADD p50, ms - - 20 <= 15 MISS by 33 %",
	} {
		if fields(i) != want {
			t.Errorf("line %d is %q, want %q", i, fields(i), want)
		}
	}
}
