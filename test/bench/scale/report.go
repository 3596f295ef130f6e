// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"io"

	"github.com/alioth-net/alioth/test/bench/curves"
	"github.com/alioth-net/alioth/test/bench/figures"
)

// Bars, see docs/design/140. bouncers is the number of roles for which the bar of events is.
const (
	bouncers          = 3
	memoryBar         = 1.5 * 1024 // MiB
	readyBar          = 30         // s
	programmedBar     = 2000       // ms
	mebibyte          = 1 << 20
	programNamePrefix = "  CPU per Address, "
)

// labelOf is how a table names the lab of a size.
func labelOf(r Result) string { return fmt.Sprintf("%d nodes", r.Size.Nodes) }

// quantity is a row of the table.
type quantity struct {
	what, unit, format string
	of                 func(Result) float64
	bars               []figures.Bar
}

var quantities = []quantity{
	{"Addresses, with those of nodes", "1", "%.0f", func(r Result) float64 { return float64(r.Size.addresses()) }, nil},
	{fmt.Sprintf("events of Addresses at all nodes, per Address; bar for %d bouncers", bouncers), "1", "%.1f", Result.AddressEvents, []figures.Bar{{AtMost: bouncers + 1}}},
	{"events at a node without the pod's VPC, per pod", "1", "%.0f", Result.Foreign, []figures.Bar{{Zero: true}}},
	{"events at a node with the VPC, per pod", "1", "%.2f", func(r Result) float64 {
		return over(r.Normal.Received, func(c Counts) float64 { return float64(c.Total().Events) }).Median() / float64(r.Normal.Pods)
	}, nil},
	{"  bytes of them", "kB", "%.2f", func(r Result) float64 {
		return over(r.Normal.Received, func(c Counts) float64 { return float64(c.Total().Bytes) }).Median() / 1e3 / float64(r.Normal.Pods)
	}, nil},
	{"read by a node at its start", "MB", "%.2f", Result.LoadedMegabytes, nil},
	{programNamePrefix + apiServer, "ms", "%.2f", func(r Result) float64 { return r.CPUPerAddress(apiServer) }, nil},
	{programNamePrefix + "etcd", "ms", "%.2f", func(r Result) float64 { return r.CPUPerAddress("etcd") }, nil},
	{programNamePrefix + "operator", "ms", "%.2f", func(r Result) float64 { return r.CPUPerAddress("operator") }, nil},
	{fmt.Sprintf("pod created to attached on a hollow node, %d/s, p50", normalRate), "ms", "%.0f", func(r Result) float64 { return r.Normal.Attached.Quantile(0.5) }, nil},
	{"  p99", "ms", "%.0f", func(r Result) float64 { return r.Normal.Attached.Quantile(0.99) }, nil},
	{"pod created to programmed on all hollow nodes, p50", "ms", "%.0f", func(r Result) float64 { return r.Normal.Everywhere.Quantile(0.5) }, nil},
	{"  p99", "ms", "%.0f", func(r Result) float64 { return r.Normal.Everywhere.Quantile(0.99) }, []figures.Bar{{AtMost: programmedBar}}},
	{"highest rate of pods that is sustained", "1/s", "%.0f", func(r Result) float64 { return float64(r.Sustained) }, nil},
	{"operator: ready after its start", "s", "%.1f", func(r Result) float64 { return r.Started.Seconds() }, nil},
	{"  after its restart", "s", "%.1f", func(r Result) float64 { return r.Restarted.Seconds() }, []figures.Bar{{AtMost: readyBar}}},
	{"  most memory resident", "MiB", "%.0f", func(r Result) float64 { return float64(r.Memory) / mebibyte }, []figures.Bar{{AtMost: memoryBar}}},
}

// apiServer is the name of the API server's process.
const apiServer = "kube-apiserver"

// Print writes a table of results, with the bars for the largest lab, which is the last one.
func Print(out io.Writer, results []Result) error {
	if len(results) == 0 {
		return nil
	}
	var paths []string
	for _, r := range results {
		paths = append(paths, labelOf(r))
	}
	var rows []*figures.Row
	for _, q := range quantities {
		row := figures.NewRow(q.what, q.unit, q.format, q.bars...)
		row.Subject = paths[len(paths)-1]
		for i, r := range results {
			row.Add(paths[i], q.of(r))
		}
		rows = append(rows, row)
	}
	return figures.Print(out, "The control plane over the number of nodes, full push", paths, rows)
}

// Charts are the curves of results, by the name of their file without its end.
func Charts(results []Result) map[string]curves.Chart {
	const x = "nodes"
	line := func(name string, of func(Result) float64) curves.Line {
		l := curves.Line{Name: name}
		for _, r := range results {
			l.Points = append(l.Points, curves.Point{X: float64(r.Size.Nodes), Y: of(r)})
		}
		return l
	}
	bar := func(name string, value float64) curves.Line {
		l := line(name, func(Result) float64 { return value })
		l.Dashed = true
		return l
	}
	return map[string]curves.Chart{
		"events": {Title: "Events of Addresses at all nodes, for one Address", X: x, Y: "events", Lines: []curves.Line{
			line("full push", Result.AddressEvents), bar(fmt.Sprintf("bar with %d bouncers", bouncers), bouncers+1),
		}},
		"cpu": {Title: "CPU time for one pod of a VPC that is on all nodes", X: x, Y: "ms", Lines: []curves.Line{
			line(apiServer, func(r Result) float64 { return r.CPUPerAddress(apiServer) }),
			line("etcd", func(r Result) float64 { return r.CPUPerAddress("etcd") }),
			line("operator", func(r Result) float64 { return r.CPUPerAddress("operator") }),
		}},
		"delay": {Title: fmt.Sprintf("Pod created to programmed, %d pods/s", normalRate), X: x, Y: "ms", Lines: []curves.Line{
			line("own node, p50", func(r Result) float64 { return r.Normal.Attached.Quantile(0.5) }),
			line("all nodes, p50", func(r Result) float64 { return r.Normal.Everywhere.Quantile(0.5) }),
			line("all nodes, p99", func(r Result) float64 { return r.Normal.Everywhere.Quantile(0.99) }),
			bar("bar of p99", programmedBar),
		}},
		"start": {Title: "What starts need", X: x, Y: "MB, s", Lines: []curves.Line{
			line("read by a node, MB", Result.LoadedMegabytes),
			line("operator ready, s", func(r Result) float64 { return r.Restarted.Seconds() }),
			line("operator's memory, MB", func(r Result) float64 { return float64(r.Memory) / 1e6 }),
		}},
	}
}
