// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backends measures interfaces outside of every VPC, the nodes' links, their
// network state, the node IPAM API and a bouncer that has died, with the tests of their
// packages.
package backends

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/vm"
)

// Paths measured beside Alioth.
const referencePlugin, ipBatch = "reference", "ip -batch"

// units has the units of the figures that tests measure, where the unit differs from ms.
var units = map[string]string{
	requestRate:     "1/s",
	endpointsMemory: "MiB",
}

// Names of the figures of the node IPAM API.
const requestRate, endpointsMemory, oneRequest = "requests per second, 20 at a time", "memory of 5,000 endpoints", "a request beside 5,000 endpoints"

// firstAnswer is the duration of a flow that begins while one of two bouncers is dead and still
// listed.
const firstAnswer = "first answer beside a dead bouncer"

// backendBars has the bars of the figures that tests measure, by the tests' names for the figures.
// A bar about one row of several has the name of the row.
var backendBars = map[string]figures.Bar{
	"ADD of ipvlan":                   {Reference: referencePlugin, AtMost: 1.2},
	"ADD of macvlan":                  {Reference: referencePlugin, AtMost: 1.2},
	"200 VLAN links":                  {Reference: ipBatch, AtMost: 1.5},
	"200 VLANs of a state":            {Reference: ipBatch, AtMost: 1.5},
	"show of 500 interfaces":          {AtMost: 50},
	"an idle minute of the handler":   {AtMost: 120}, // 0.2 % of a core
	"200 VXLAN links":                 {AtMost: 5000},
	"one more beside 200 VXLAN links": {AtMost: 50},
	oneRequest + ", p50":              {AtMost: 2},
	oneRequest + ", p99":              {AtMost: 10},
	requestRate:                       {AtLeast: 1000},
	endpointsMemory:                   {AtMost: 20},
	firstAnswer + ", p99":             {AtMost: 1000},
}

// Bench runs the tests that measure.
type Bench struct {
	root string
	out  io.Writer
	step func(string)
}

// New returns a Bench of the work tree with this root folder. It writes tables to out and its
// progress to step.
func New(root string, out io.Writer, step func(string)) *Bench {
	return &Bench{root: root, out: out, step: step}
}

// Measure measures interfaces outside of every VPC beside the reference plugins of the same kinds,
// the nodes' links and their network state. Features that the kernel of this machine lacks are
// measured in a virtual machine, references included.
func (b *Bench) Measure(ctx context.Context) error {
	// Tests see it here and in the machine.
	if err := os.Setenv(figures.Variable, "1"); err != nil {
		return fmt.Errorf("have tests measure: %w", err)
	}
	here, err := b.figuresHere(ctx, "./cnid/forward/hostlink", "TestFigures_ManyVXLAN_OneChangeMeasured")
	if err != nil {
		return err
	}
	if err := figures.Print(b.out, "VXLAN links of a node", []string{figures.Alioth}, backendRows(here)); err != nil {
		return err
	}
	if err := b.networkState(ctx); err != nil {
		return err
	}
	if err := b.nodeIPAM(ctx); err != nil {
		return err
	}
	if err := b.roles(ctx); err != nil {
		return err
	}
	inMachine, err := b.figuresOfMachine(ctx)
	if err != nil {
		return err
	}
	title := "Backends and links on Linux 6.12, in a virtual machine"
	return figures.Print(b.out, title, []string{figures.Alioth, referencePlugin, ipBatch}, backendRows(inMachine))
}

// networkState measures the features that the kernel of every machine has.
func (b *Bench) networkState(ctx context.Context) error {
	shown, err := b.figuresHere(ctx, "./cnid/nmstate/transaction", "TestFigures_ManyInterfaces_ShowTimeMeasured")
	if err != nil {
		return err
	}
	idle, err := b.figuresHere(ctx, "./cnid/nmstate/handler", "TestFigures_IdleHandler_ResourcesMeasured")
	if err != nil {
		return err
	}
	return figures.Print(b.out, "Network state of a node", []string{figures.Alioth}, backendRows(append(shown, idle...)))
}

// nodeIPAM measures a whole daemon that other CNI plugins ask for addresses.
func (b *Bench) nodeIPAM(ctx context.Context) error {
	asked, err := b.figuresHere(ctx, "./cnid", "TestFigures_NodeIPAMRequests_DurationMeasured")
	if err != nil {
		return err
	}
	return figures.Print(b.out, "Node IPAM API", []string{figures.Alioth}, backendRows(asked))
}

// roles measures nodes whose datapaths are in namespaces of this machine.
func (b *Bench) roles(ctx context.Context) error {
	felt, err := b.figuresHere(ctx, "./ebpf/datapath/test/roles", "TestBouncer_DeadInBenchmark_DurationMeasured")
	if err != nil {
		return err
	}
	return figures.Print(b.out, "A bouncer that has died", []string{figures.Alioth}, backendRows(felt))
}

// figuresOfMachine runs the tests that measure on the machine with the newest kernel.
func (b *Bench) figuresOfMachine(ctx context.Context) ([]figures.Line, error) {
	plugin := filepath.Join(b.root, ".vm", "released", "alioth")
	if err := os.MkdirAll(filepath.Dir(plugin), 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for the plugin: %w", err)
	}
	absolute, err := filepath.Abs(plugin)
	if err != nil {
		return nil, fmt.Errorf("find the folder of the plugin: %w", err)
	}
	if err := build.Go(ctx, b.root, "the plugin", b.step, "-trimpath", "-ldflags=-s -w", "-o", absolute, "./cmd/alioth"); err != nil {
		return nil, err
	}
	var log bytes.Buffer
	kernels := vm.Kernels()
	total, err := vm.Run(ctx, vm.Options{
		Root: b.root, Kernels: kernels[len(kernels)-1:], CPUs: 2, Out: io.Discard, Log: &log, Progress: b.step,
		Packages: []vm.Package{
			{
				Path: "./cnid", Run: "TestFigures_ADDAndDEL_ComparedWithReferencePlugins", Files: []string{"../.vm/released/alioth"},
				Tools: []string{"/usr/lib/cni/ipvlan", "/usr/lib/cni/macvlan", "/usr/lib/cni/static"}, Hardware: true,
			},
			{
				Path:     "./cnid/forward/hostlink",
				Run:      "TestFigures_ManyVLAN_ComparedWithCommandBatch",
				Tools:    []string{"ip"},
				Hardware: true,
			},
			{
				Path:     "./cnid/nmstate/transaction",
				Run:      "TestFigures_ManyVLANState_ComparedWithCommandBatch",
				Tools:    []string{"ip"},
				Hardware: true,
			},
		},
	})
	if err == nil && total.Failed > 0 {
		err = errors.New("tests failed")
	}
	if err != nil {
		return nil, fmt.Errorf("measure in a virtual machine: %w\n%s", err, log.String())
	}
	return figures.ReadLines(&log)
}

// figuresHere runs a test that measures, on this machine.
func (b *Bench) figuresHere(ctx context.Context, pkg, test string) ([]figures.Line, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run", "^"+test+"$", pkg)
	cmd.Dir, cmd.Env = b.root, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("run the test %s: %w\n%s", test, err, out)
	}
	return figures.ReadLines(bytes.NewReader(out))
}

// backendRows makes rows of the measurements of tests, in their order: medians of the rounds, and
// where a round has several values, the 99th percentile of all of them too.
func backendRows(lines []figures.Line) (rows []*figures.Row) {
	rowOf := func(what, measured string) *figures.Row {
		if i := slices.IndexFunc(rows, func(r *figures.Row) bool { return r.What == what }); i >= 0 {
			return rows[i]
		}
		row := &figures.Row{What: what, Unit: cmp.Or(units[measured], "ms"), Format: "%.1f", Subject: figures.Alioth}
		for _, name := range slices.Compact([]string{what, measured}) {
			if bar, ok := backendBars[name]; ok {
				row.Bars = []figures.Bar{bar}
			}
		}
		rows = append(rows, row)
		return row
	}
	all := map[[2]string]figures.Series{}
	for _, line := range lines {
		if len(line.Values) == 1 {
			rowOf(line.What, line.What).Add(line.Path, line.Values[0])
			continue
		}
		rowOf(line.What+", p50", line.What).Add(line.Path, line.Values.Median())
		rowOf(line.What+", p99", line.What)
		key := [2]string{line.What, line.Path}
		all[key] = append(all[key], line.Values...)
	}
	for key, values := range all {
		rowOf(key[0]+", p99", key[0]).Add(key[1], values.Quantile(0.99))
	}
	return rows
}
