// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package figures turns measurements into ratios of medians, holds them
// against bars, and prints them as tables.
package figures

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Alioth is the name of the path that the bars of most rows are about.
const Alioth = "Alioth"

// Series are the measurements of one quantity over one path, one per round.
type Series []float64

// Median of the series, 0 if it is empty.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Quantile q (0 to 1) of the series: the smallest measurement that a share q of all
// does not exceed; 0 if it is empty.
func (s Series) Quantile(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Bar is the bound that a ratio to a reference has to reach.
type Bar struct {
	// Reference is the name of the path that is compared with; "" compares the
	// plain value.
	Reference string
	// AtLeast and AtMost bound the ratio; 0 stands for no bound.
	AtLeast, AtMost float64
	// Zero wants the plain value to be 0; the bar has no other bound then.
	Zero bool
}

// Check reports whether a ratio clears the bar, and else by how much it misses.
func (b Bar) Check(ratio float64) string {
	switch {
	case b.Zero && ratio == 0:
		return "PASS"
	case b.Zero:
		return "MISS"
	case ratio == 0 || math.IsNaN(ratio):
		return "no figure"
	case b.AtLeast != 0 && ratio < b.AtLeast:
		return fmt.Sprintf("MISS by %.0f %%", (1-ratio/b.AtLeast)*100)
	case b.AtMost != 0 && ratio > b.AtMost:
		return fmt.Sprintf("MISS by %.0f %%", (ratio/b.AtMost-1)*100)
	case b.AtLeast == 0 && b.AtMost == 0:
		return ""
	}
	return "PASS"
}

func (b Bar) String() string {
	switch {
	case b.AtLeast != 0:
		return fmt.Sprintf(">= %.2f", b.AtLeast)
	case b.AtMost != 0:
		return fmt.Sprintf("<= %.2f", b.AtMost)
	}
	return "-"
}

// Row is one quantity, measured over several paths.
type Row struct {
	// What names the measured quantity, and Unit its unit.
	What, Unit string
	// Format of one value, for example %.1f.
	Format string
	// Subject is the path that bars are about.
	Subject string
	Paths   map[string]Series
	Bars    []Bar
}

// NewRow returns an empty row whose bars are about Alioth.
func NewRow(what, unit, format string, bars ...Bar) *Row {
	return &Row{What: what, Unit: unit, Format: format, Subject: Alioth, Bars: bars}
}

// Add adds one measurement of a path.
func (r *Row) Add(path string, value float64) {
	if r.Paths == nil {
		r.Paths = map[string]Series{}
	}
	r.Paths[path] = append(r.Paths[path], value)
}

// Ratio returns the ratio of the subject's median to the median of a reference, 0 without a
// reference value.
func (r *Row) Ratio(reference string) float64 {
	subject := r.Paths[r.Subject].Median()
	if reference == "" {
		return subject
	}
	if median := r.Paths[reference].Median(); median != 0 {
		return subject / median
	}
	return 0
}

// Milliseconds returns the value of a time for a row in ms, exact to the microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// Print writes a table: a line per row and bar, paths in the order given.
func Print(out io.Writer, title string, paths []string, rows []*Row) error {
	fmt.Fprintf(out, "\n%s\n", title)
	table := tabwriter.NewWriter(out, 2, 0, 2, ' ', 0)
	fmt.Fprintf(table, "  \t%s\tratio\tto\tbar\t\n", strings.Join(paths, "\t"))
	for _, row := range rows {
		printRow(table, paths, row)
	}
	return table.Flush()
}

func printRow(table io.Writer, paths []string, row *Row) {
	fmt.Fprintf(table, "  %s, %s\t", row.What, row.Unit)
	for _, path := range paths {
		text := "-"
		if series := row.Paths[path]; len(series) > 0 {
			text = fmt.Sprintf(row.Format, series.Median())
		}
		fmt.Fprintf(table, "%s\t", text)
	}
	for i, bar := range row.Bars {
		if i > 0 {
			fmt.Fprintf(table, "  \t%s", strings.Repeat("\t", len(paths)))
		}
		if bar.Reference == "" {
			verdict := "no figure"
			if len(row.Paths[row.Subject]) > 0 {
				verdict = bar.Check(row.Ratio(""))
			}
			fmt.Fprintf(table, "\t\t%s\t%s\n", bar.value(row.Format), verdict)
			continue
		}
		ratio := row.Ratio(bar.Reference)
		fmt.Fprintf(table, "%.2f\t%s\t%s\t%s\n", ratio, bar.Reference, bar, bar.Check(ratio))
	}
	if len(row.Bars) == 0 {
		fmt.Fprintln(table)
	}
}

// value writes a bar on the plain value in the row's own format.
func (b Bar) value(format string) string {
	switch {
	case b.AtLeast != 0:
		return ">= " + fmt.Sprintf(format, b.AtLeast)
	case b.AtMost != 0:
		return "<= " + fmt.Sprintf(format, b.AtMost)
	case b.Zero:
		return "0"
	}
	return "-"
}
