// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/waits"
)

func TestFactor_Figures_WorstDecides(t *testing.T) {
	for name, tt := range map[string]struct {
		figures Figures
		want    int
	}{
		"a fast machine":             {Figures{time.Nanosecond, time.Nanosecond, time.Microsecond, time.Millisecond}, 1},
		"at the bound":               {slowest, 1},
		"slow system calls":          {Figures{Call: 3 * slowest.Call}, 4},
		"emulated page tables":       {Figures{Page: slowest.Page + 1}, 2},
		"slow processes":             {Figures{Process: 4 * slowest.Process}, 4},
		"a busy host":                {Figures{Compute: 5 * slowest.Compute}, 8},
		"slower than the most":       {Figures{Call: time.Second, Compute: time.Hour}, waits.Most},
		"slow in two ways, not more": {Figures{Call: 2 * slowest.Call, Page: 2 * slowest.Page}, 2},
	} {
		if got := tt.figures.Factor(); got != tt.want {
			t.Errorf("%s: the factor of %s is %d, want %d", name, tt.figures, got, tt.want)
		}
	}
}

func TestMeasure_ThisMachine_AllFigures(t *testing.T) {
	figures, err := Measure()
	if err != nil {
		t.Fatal(err)
	}
	if figures.Call <= 0 || figures.Page <= 0 || figures.Process <= figures.Call || figures.Compute <= figures.Call {
		t.Errorf("measured %s", figures)
	}
	t.Log(figures, figures.Factor())
}
