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
func writeTable(out io.Writer, all []outcome, took time.Duration, passed bool) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nlane\tstep\ttook\ttests\t\n")
	sums, order := map[string]time.Duration{}, []string{}
	var tests []events.Test
	for _, o := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", o.Lane, o.Step, minutes(o.Took), len(o.Tests), result(o))
		if _, ok := sums[o.Lane]; !ok {
			order = append(order, o.Lane)
		}
		sums[o.Lane] += o.Took
		for _, again := range o.Repeats {
			fmt.Fprintf(w, "%s\t%s again\t%s\t1\t%s\n", o.Lane, o.Step, minutes(again.Took), again.result())
			sums[o.Lane] += again.Took
		}
		tests = append(tests, o.Tests...)
	}
	for _, lane := range order {
		fmt.Fprintf(w, "%s\tin all\t%s\t\t\n", lane, minutes(sums[lane]))
	}
	fmt.Fprintf(
		w,
		"in all\t\t%s\t%d\t%s\n",
		minutes(took),
		len(tests),
		map[bool]string{true: "ok", false: "FAILED"}[passed],
	)
	slices.SortStableFunc(tests, func(a, b events.Test) int { return cmp.Compare(b.Took, a.Took) })
	fmt.Fprintf(w, "\nslowest tests\t\t\t\t\n")
	for _, t := range tests[:min(slowest, len(tests))] {
		fmt.Fprintf(w, "%s\t%s\t%s\t\t\n", minutes(t.Took), t.Package, t.Name)
	}
	w.Flush()
}

// result returns a step's result for the table.
func result(o outcome) string {
	switch {
	case o.Err == nil:
		return "ok"
	case o.failed():
		return "FAILED: " + o.Err.Error()
	}
	return fmt.Sprintf("FLAKY: %d", len(o.Repeats))
}

func minutes(d time.Duration) string {
	return fmt.Sprintf("%d:%04.1f", int(d.Minutes()), (d % time.Minute).Seconds())
}
