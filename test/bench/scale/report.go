// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"io"
	"math"

	"github.com/alioth-net/alioth/test/bench/curves"
	"github.com/alioth-net/alioth/test/bench/figures"
)

// Bars, see docs/design/064.
const (
	memoryBar     = 1.5 * 1024 // MiB
	readyBar      = 30         // s
	programmedBar = 2000       // ms
	mebibyte      = 1 << 20
)

// apiServer is the name of the API server's process.
const apiServer = "kube-apiserver"

// quantity is a row of the table.
type quantity struct {
	what, unit, format string
	// ofPhase is a quantity of full push and of roles, ofLab one of the whole lab.
	ofPhase func(Phase) float64
	ofLab   func(Result) float64
	bars    []figures.Bar
}

// quantities returns the rows for labs with this number of bouncers. The bars apply to labs with
// roles.
func quantities(bouncers int) []quantity {
	cpu := func(process string) func(Phase) float64 {
		return func(p Phase) float64 { return p.CPUPerAddress(process) }
	}
	return []quantity{
		{what: "Addresses, with those of nodes", unit: "1", format: "%.0f", ofLab: func(r Result) float64 { return float64(r.Size.addresses()) }},
		{
			what: "events of Addresses at all nodes, per Address", unit: "1", format: "%.1f", ofPhase: Phase.AddressEvents,
			bars: []figures.Bar{{AtMost: float64(bouncers + 1)}},
		},
		{what: "bytes of events of all kinds at all nodes, per pod", unit: "kB", format: "%.1f", ofPhase: func(p Phase) float64 { return p.EventBytes() / 1e3 }},
		{what: "events at a node without the pod, its VPC or a role", unit: "1", format: "%.0f", ofPhase: Phase.Foreign, bars: []figures.Bar{{Zero: true}}},
		{what: "addresses of others held by a node without a role", unit: "1", format: "%.0f", ofPhase: func(p Phase) float64 { return float64(p.Held) }},
		{what: "CPU time per pod, " + apiServer, unit: "ms", format: "%.1f", ofPhase: cpu(apiServer)},
		{what: "CPU time per pod, etcd", unit: "ms", format: "%.1f", ofPhase: cpu("etcd")},
		{what: "CPU time per pod, operator", unit: "ms", format: "%.1f", ofPhase: cpu("operator")},
		{
			what: fmt.Sprintf("pod created to attached, %d/s, p50", normalRate), unit: "ms", format: "%.0f",
			ofPhase: func(p Phase) float64 { return p.Normal.Attached.Quantile(0.5) },
		},
		{what: "pod created to attached, p99", unit: "ms", format: "%.0f", ofPhase: func(p Phase) float64 { return p.Normal.Attached.Quantile(0.99) }},
		{what: "pod created to programmed everywhere, p50", unit: "ms", format: "%.0f", ofPhase: func(p Phase) float64 { return p.Normal.Everywhere.Quantile(0.5) }},
		{
			what: "pod created to programmed everywhere, p99", unit: "ms", format: "%.0f", ofPhase: func(p Phase) float64 { return p.Normal.Everywhere.Quantile(0.99) },
			bars: []figures.Bar{{AtMost: programmedBar}},
		},
		{
			what: fmt.Sprintf("highest rate of pods that is sustained, up to %d", highestRate), unit: "1/s", format: "%.0f",
			ofPhase: func(p Phase) float64 { return float64(p.Sustained) },
		},
		{what: "read by a node at its start", unit: "MB", format: "%.2f", ofLab: Result.LoadedMegabytes},
		{what: "all bouncers serve, other nodes without tables", unit: "s", format: "%.1f", ofLab: func(r Result) float64 { return r.Placed.Seconds() }},
		{what: "operator ready after its start", unit: "s", format: "%.1f", ofLab: func(r Result) float64 { return r.Started.Seconds() }},
		{
			what: "operator ready after its restart", unit: "s", format: "%.1f", ofLab: func(r Result) float64 { return r.Restarted.Seconds() },
			bars: []figures.Bar{{AtMost: readyBar}},
		},
		{
			what: "operator's most memory resident", unit: "MiB", format: "%.0f", ofLab: func(r Result) float64 { return float64(r.Memory) / mebibyte },
			bars: []figures.Bar{{AtMost: memoryBar}},
		},
	}
}

// Columns of the table. Figures of the whole lab are in the column of roles.
func fullColumn(r Result) string { return fmt.Sprintf("%d nodes, full push", r.Size.Nodes) }

func rolesColumn(r Result) string {
	return fmt.Sprintf("%d nodes, %d bouncers", r.Size.Nodes, r.Size.Bouncers)
}

// value returns a quantity with roles or of the lab; false: it was not measured.
func (q quantity) value(r Result) (float64, bool) {
	if q.ofPhase != nil {
		return q.of(r.Roles)
	}
	value := q.ofLab(r)
	return value, value != 0
}

func (q quantity) of(p Phase) (float64, bool) {
	if !p.measured() {
		return 0, false
	}
	value := q.ofPhase(p)
	return value, !math.IsNaN(value)
}

// Print writes a table of results, with the bars for the last result, which comes from the largest
// lab.
func Print(out io.Writer, results []Result) error {
	if len(results) == 0 {
		return nil
	}
	var columns []string
	for _, r := range results {
		columns = append(columns, fullColumn(r), rolesColumn(r))
	}
	var rows []*figures.Row
	for _, q := range quantities(results[len(results)-1].Size.Bouncers) {
		row := figures.NewRow(q.what, q.unit, q.format, q.bars...)
		row.Subject = columns[len(columns)-1]
		for _, r := range results {
			if q.ofPhase != nil {
				if value, ok := q.of(r.Full); ok {
					row.Add(fullColumn(r), value)
				}
			}
			if value, ok := q.value(r); ok {
				row.Add(rolesColumn(r), value)
			}
		}
		rows = append(rows, row)
	}
	return figures.Print(out, "The control plane over the number of nodes", columns, rows)
}

// Missed lists the bars that results do not reach, of each lab with roles. A figure that was not
// measured misses its bar.
func Missed(results []Result) (missed []string) {
	for _, r := range results {
		for _, q := range quantities(r.Size.Bouncers) {
			for _, bar := range q.bars {
				verdict := "no figure"
				value, ok := q.value(r)
				if ok {
					verdict = bar.Check(value)
				}
				if verdict != "PASS" {
					missed = append(missed, fmt.Sprintf("%s: %s: %s (%s %s)", rolesColumn(r), q.what, verdict, fmt.Sprintf(q.format, value), q.unit))
				}
			}
		}
	}
	return missed
}

// line returns a curve over the nodes. A figure that was not measured has no point.
func line(name string, results []Result, of func(Result) float64) curves.Line {
	l := curves.Line{Name: name}
	for _, r := range results {
		l.Points = append(l.Points, curves.Point{X: float64(r.Size.Nodes), Y: of(r)})
	}
	return l
}

// both returns the curves of full push and of roles.
func both(results []Result, what string, of func(Phase) float64) []curves.Line {
	if what != "" {
		what = ", " + what
	}
	return []curves.Line{
		line("full push"+what, results, func(r Result) float64 { return of(r.Full) }),
		line("bouncers"+what, results, func(r Result) float64 { return of(r.Roles) }),
	}
}

func barAt(name string, results []Result, value float64) curves.Line {
	l := line(name, results, func(Result) float64 { return value })
	l.Dashed = true
	return l
}

// Charts returns the curves of results, by the name of their file without its end.
func Charts(results []Result) map[string]curves.Chart {
	const x = "nodes"
	cpu := func(process string) func(Phase) float64 {
		return func(p Phase) float64 { return p.CPUPerAddress(process) }
	}
	bouncers := 0
	if len(results) > 0 {
		bouncers = results[0].Size.Bouncers
	}
	return map[string]curves.Chart{
		"events": {
			Title: "Events of Addresses at all nodes, for one Address", X: x, Y: "events",
			Lines: append(both(results, "", Phase.AddressEvents), barAt(fmt.Sprintf("bar, %d bouncers", bouncers), results, float64(bouncers+1))),
		},
		"bytes": {
			Title: "Events of all kinds at all nodes, for one pod", X: x, Y: "kB",
			Lines: both(results, "", func(p Phase) float64 { return p.EventBytes() / 1e3 }),
		},
		"cpu": {
			Title: "CPU time for one pod of a VPC that is on all nodes", X: x, Y: "ms",
			Lines: append(both(results, "API server", cpu(apiServer)), both(results, "operator", cpu("operator"))...),
		},
		"held": {
			Title: "Addresses of others held by a node without a role", X: x, Y: "addresses",
			Lines: both(results, "", func(p Phase) float64 { return float64(p.Held) }),
		},
		"delay": {
			Title: fmt.Sprintf("Pod created to programmed everywhere, %d pods/s", normalRate), X: x, Y: "ms",
			Lines: append(append(both(results, "p50", func(p Phase) float64 { return p.Normal.Everywhere.Quantile(0.5) }),
				both(results, "p99", func(p Phase) float64 { return p.Normal.Everywhere.Quantile(0.99) })...), barAt("bar of p99", results, programmedBar)),
		},
		"rate": {
			Title: fmt.Sprintf("Highest rate that is sustained, up to %d pods/s", highestRate), X: x, Y: "pods/s",
			Lines: both(results, "", func(p Phase) float64 { return float64(p.Sustained) }),
		},
		"start": {Title: "What starts need", X: x, Y: "MB, s", Lines: []curves.Line{
			line("read by a node, MB", results, Result.LoadedMegabytes),
			line("operator ready, s", results, func(r Result) float64 { return r.Restarted.Seconds() }),
			line("operator's memory, MiB", results, func(r Result) float64 { return float64(r.Memory) / mebibyte }),
			line("roles placed, s", results, func(r Result) float64 { return r.Placed.Seconds() }),
		}},
	}
}
