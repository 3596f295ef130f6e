// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package labs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/metrics"
	"github.com/alioth-net/alioth/test/bench/runtimelog"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

const (
	pluginsPath = "bridge plugins"
	// daemonMetrics are a daemon's metrics at its socket.
	daemonMetrics = "http://alioth-cnid/metrics"
	addHistogram  = "alioth_cnid_add_seconds"
	// Phases of an ADD: the wait for the control plane, making the devices, attaching the
	// programs, and all but the first.
	phaseWait, phaseAttach, phaseProgram, phaseTotal = "wait", "attach", "program", "total"
)

// crowd is where waves of pods are started.
type crowd struct {
	name  string
	lab   *cluster.Cluster
	stage *scene.Scene
	pod   func(name string, options ...scene.PodOption) *corev1.Pod
	logs  *runtimelog.Logs
}

// Waves measures how long a wave of pods takes to be Ready and how long the runtime waits for each
// plugin call, against the reference plugins on a second lab, and the daemon's own work for each
// ADD.
func (b *Bench) Waves(ctx context.Context) (err error) {
	tenant, removeTenant, err := b.tenant(ctx, "bench-waves")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeTenant()) }()
	reference, removeReference, err := b.referenceCrowd(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeReference()) }()
	mine := &crowd{name: figures.Alioth, lab: b.lab, stage: b.stage, pod: tenant.Pod}
	restore, err := mine.logCalls(ctx, cluster.DefaultDir(b.root))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	before, err := b.addHistograms(ctx)
	if err != nil {
		return err
	}
	rows := b.waveRows()
	for round := range b.rounds {
		for i := range 2 {
			if err := b.measureWave(ctx, round, []*crowd{reference, mine}[(i+round)%2], rows); err != nil {
				return err
			}
		}
	}
	after, err := b.addHistograms(ctx)
	if err != nil {
		return err
	}
	if err := figures.Print(b.out, "Pods", []string{pluginsPath, figures.Alioth}, rows); err != nil {
		return err
	}
	return b.printAdds(before, after)
}

// waveRows returns the quantities of a wave: time until all are Ready, and two
// quantiles of the plugin calls.
func (b *Bench) waveRows() []*figures.Row {
	call := []figures.Bar{{Reference: pluginsPath, AtMost: 0.7}}
	return []*figures.Row{
		{
			What: fmt.Sprintf("%d pods Ready", b.pods), Unit: "s", Format: "%.1f", Subject: figures.Alioth,
			Bars: []figures.Bar{{Reference: pluginsPath, AtMost: 1.1}},
		},
		{What: "plugin call, p50", Unit: "ms", Format: "%.0f", Subject: figures.Alioth, Bars: call},
		{What: "plugin call, p99", Unit: "ms", Format: "%.0f", Subject: figures.Alioth, Bars: call},
	}
}

func (b *Bench) measureWave(ctx context.Context, round int, c *crowd, rows []*figures.Row) error {
	if err := awaitRemoval(ctx); err != nil {
		return err
	}
	took, calls, err := c.wave(ctx, b.pods)
	if err != nil {
		return err
	}
	if len(calls) < b.pods {
		return fmt.Errorf("%d pods of %s are Ready, and containerd tells of %d plugin calls", b.pods, c.name, len(calls))
	}
	p50, p99 := calls.Quantile(0.5), calls.Quantile(0.99)
	b.step(
		fmt.Sprintf(
			"wave %d of %d, %s: %.1f s, plugin call p50 %.0f ms, p99 %.0f ms",
			round+1,
			b.rounds,
			c.name,
			took.Seconds(),
			p50,
			p99,
		),
	)
	for i, value := range []float64{took.Seconds(), p50, p99} {
		rows[i].Add(c.name, value)
	}
	return nil
}

// awaitRemoval waits until the pods of the last wave are gone in the kernel too.
func awaitRemoval(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	return namespacesRemoved(ctx)
}

// printAdds prints the times of the daemons for ADDs between two readings.
func (b *Bench) printAdds(before, after map[string]figures.Histogram) error {
	for phase, h := range after {
		h.Add(before[phase], -1)
	}
	title := fmt.Sprintf(
		"The daemon's own work for an ADD (%.0f ADDs, without waiting for the control plane)",
		after[phaseTotal].Count(),
	)
	return errors.Join(
		figures.Print(b.out, title, []string{figures.Alioth}, quantiles("", after[phaseTotal], 15, 60)),
		figures.Print(b.out, "Parts of it, and the wait for the annotation", []string{figures.Alioth}, slices.Concat(
			quantiles("devices, ", after[phaseAttach], 0, 0), quantiles("programs, ", after[phaseProgram], 0, 0),
			quantiles("annotation, ", after[phaseWait], 0, 0))))
}

// quantiles are rows of p50 and p99 in ms, each with its bar.
func quantiles(what string, h figures.Histogram, p50, p99 float64) []*figures.Row {
	return []*figures.Row{quantileRow(what+"p50", h.Quantile(0.5), p50), quantileRow(what+"p99", h.Quantile(0.99), p99)}
}

func quantileRow(name string, seconds, bar float64) *figures.Row {
	row := &figures.Row{
		What:    name,
		Unit:    "ms",
		Format:  "%.1f",
		Subject: figures.Alioth,
		Bars:    []figures.Bar{{AtMost: bar}},
	}
	row.Add(figures.Alioth, seconds*1e3)
	return row
}

// referenceCrowd brings up a second lab with the reference plugins beside the
// first; between its waves it idles.
func (b *Bench) referenceCrowd(ctx context.Context) (c *crowd, remove func() error, err error) {
	folder := filepath.Join(cluster.DefaultDir(b.root), "reference")
	remove = func() error { return cluster.Down(context.WithoutCancel(ctx), b.root, folder, b.step) }
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	lab, err := cluster.Up(ctx, b.root, cluster.Options{
		Topology: underlay.Topology{Lab: "abridge", Nodes: len(b.lab.Nodes()), Octet: 78},
		CNI:      cluster.CNIBridge, Dir: folder, Progress: b.step,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("bring up the reference lab: %w", err)
	}
	stage, err := scene.New(lab.Config(), lab)
	if err != nil {
		return nil, nil, err
	}
	namespace := scene.Namespace("bench", "")
	if err := stage.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return nil, nil, err
	}
	if err := stage.WaitForAccount(ctx, namespace.Name); err != nil {
		return nil, nil, err
	}
	c = &crowd{name: pluginsPath, lab: lab, stage: stage, pod: func(name string, options ...scene.PodOption) *corev1.Pod {
		return scene.Pod(namespace.Name, name, options...)
	}}
	_, err = c.logCalls(ctx, folder) // the lab goes away, so nothing has to be restored
	return c, remove, err
}

// logCalls has the runtime of the lab in folder log plugin calls; restore ends that.
func (c *crowd) logCalls(ctx context.Context, folder string) (restore func() error, err error) {
	c.logs, restore, err = runtimelog.New(ctx, c.lab, folder)
	return restore, err
}

// wave starts pods on all nodes, returns how long it took until all were Ready and
// how long each plugin call took, in ms, and deletes them again.
func (c *crowd) wave(ctx context.Context, size int) (took time.Duration, calls figures.Series, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*setUpTime)
	defer cancel()
	nodes := c.lab.Nodes()
	var pods []*corev1.Pod
	var objects []client.Object
	for i := range size {
		pod := c.pod(fmt.Sprintf("wave-%02d", i), scene.OnNode(nodes[i%len(nodes)].Name))
		pods, objects = append(pods, pod), append(objects, pod)
	}
	if _, err := c.logs.Calls(); err != nil { // of other pods
		return 0, nil, err
	}
	start := time.Now()
	if err := c.stage.Start(ctx, pods...); err != nil {
		return 0, nil, err
	}
	took = time.Since(start)
	each, err := c.logs.Calls()
	if err != nil {
		return 0, nil, err
	}
	for _, call := range each {
		calls = append(calls, call.Seconds()*1e3)
	}
	return took, calls, c.stage.Delete(ctx, objects...)
}

// addHistograms reads the daemons' histograms of an ADD's phases, all nodes
// together.
func (b *Bench) addHistograms(ctx context.Context) (map[string]figures.Histogram, error) {
	sums := map[string]figures.Histogram{phaseTotal: {}, phaseWait: {}, phaseAttach: {}, phaseProgram: {}}
	for _, node := range b.lab.Nodes() {
		out, err := b.lab.NodeExec(ctx, node.Name, b.tool, "get", "--socket", cniapi.DefaultSocket, daemonMetrics)
		if err != nil {
			return nil, fmt.Errorf("read the daemon's metrics: %w", err)
		}
		phases, err := metrics.Histograms(out, addHistogram, "phase")
		if err != nil {
			return nil, fmt.Errorf("read the daemon's metrics: %w", err)
		}
		for phase, sum := range sums {
			for _, h := range phases[phase] {
				sum.Add(toHistogram(h), 1)
			}
		}
	}
	return sums, nil
}

func toHistogram(read *dto.Histogram) figures.Histogram {
	h := figures.Histogram{}
	for _, bucket := range read.GetBucket() {
		h[bucket.GetUpperBound()] = float64(bucket.GetCumulativeCount())
	}
	return h
}
