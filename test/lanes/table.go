// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/alioth-net/alioth/test/lanes/events"
)

// slowest is how many tests the table names.
const slowest = 10

// writeTable prints how long each step of each lane took, and the slowest tests.
func writeTable(out io.Writer, all []outcome, took time.Duration) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nlane\tstep\ttook\ttests\t\n")
	verdict, sums, order := "ok", map[string]time.Duration{}, []string{}
	var tests []events.Test
	for _, o := range all {
		result := "ok"
		if o.Err != nil {
			result = "FAILED: " + o.Err.Error()
			verdict = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", o.Lane, o.Step, minutes(o.Took), len(o.Tests), result)
		if _, ok := sums[o.Lane]; !ok {
			order = append(order, o.Lane)
		}
		sums[o.Lane] += o.Took
		tests = append(tests, o.Tests...)
	}
	for _, lane := range order {
		fmt.Fprintf(w, "%s\tin all\t%s\t\t\n", lane, minutes(sums[lane]))
	}
	fmt.Fprintf(w, "in all\t\t%s\t%d\t%s\n", minutes(took), len(tests), verdict)
	slices.SortStableFunc(tests, func(a, b events.Test) int { return cmp.Compare(b.Took, a.Took) })
	fmt.Fprintf(w, "\nslowest tests\t\t\t\t\n")
	for _, t := range tests[:min(slowest, len(tests))] {
		fmt.Fprintf(w, "%s\t%s\t%s\t\t\n", minutes(t.Took), t.Package, t.Name)
	}
	w.Flush()
}

func minutes(d time.Duration) string {
	return fmt.Sprintf("%d:%04.1f", int(d.Minutes()), (d % time.Minute).Seconds())
}
