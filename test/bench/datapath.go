// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// runner runs the test tool at one end of a path.
type runner func(ctx context.Context, arguments ...string) (string, error)

// path leads from where run runs to a server's address.
type path struct {
	name    string
	run     runner
	address netip.Addr
}

// Payloads of datagrams: one fills a frame of every path but for a few bytes,
// the other leaves little to do but what every packet costs.
const (
	fullDatagram  = 1300
	smallDatagram = 64
)

// measure is one way to measure a path.
type measure func(ctx context.Context, p path, span time.Duration) (float64, error)

func stream(ctx context.Context, p path, span time.Duration) (float64, error) {
	var result report.Load
	err := ask(ctx, p, &result, "load", "tcp", at(p.address, report.PortSink), "--duration", span.String())
	return result.BitsPerSecond / 1e9, err
}

func datagrams(size int) measure {
	return func(ctx context.Context, p path, span time.Duration) (float64, error) {
		var result report.Load
		err := ask(ctx, p, &result, "load", "udp", at(p.address, report.PortSink), "--duration", span.String(), "--size", fmt.Sprint(size))
		return result.PacketsPerSecond / 1e3, err
	}
}

func roundTrip(ctx context.Context, p path, span time.Duration) (float64, error) {
	var result report.Latency
	err := ask(ctx, p, &result, "latency", at(p.address, report.PortRoundTrip), "--duration", span.String())
	return float64(result.RTT.P50.Nanoseconds()) / 1e3, err
}

func echo(ctx context.Context, p path, span time.Duration) (float64, error) {
	var result report.Latency
	err := ask(ctx, p, &result, "echo-latency", p.address.String(), "--duration", span.String())
	return float64(result.RTT.P50.Nanoseconds()) / 1e3, err
}

// ask runs the test tool at the path's start and reads the JSON it prints.
func ask(ctx context.Context, p path, into any, arguments ...string) error {
	out, err := p.run(ctx, arguments...)
	if err != nil {
		return fmt.Errorf("over %s: %w", p.name, err)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("over %s, read %q: %w", p.name, out, err)
	}
	return nil
}

// job is one row of a table: what is measured over which paths.
type job struct {
	row     *figures.Row
	measure measure
	paths   []path
}

func newJob(what, unit, format string, measure measure, paths []path, bars ...figures.Bar) job {
	return job{&figures.Row{What: what, Unit: unit, Format: format, Subject: figures.Alioth, Bars: bars}, measure, paths}
}

// datapath measures rates and times between pods against the references.
func (b *bench) datapath(ctx context.Context) (err error) {
	tenant, removeTenant, err := b.tenant(ctx, "bench")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeTenant()) }()
	refs, err := buildReferences(ctx, b.lab, b.tool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, refs.remove(ctx)) }()
	podCross, podSame, err := b.podPaths(ctx, tenant, refs)
	if err != nil {
		return err
	}
	cross, same := refs.paths(b.lab)
	cross, same = append(cross, podCross), append(same, podSame)
	if err := b.warmUp(ctx, slices.Concat(cross, same)); err != nil {
		return err
	}
	for _, offload := range []string{"off", "on"} {
		if err := b.crossNode(ctx, refs, offload, cross); err != nil {
			return err
		}
	}
	return b.sameNode(ctx, same)
}

// podPaths starts three pods and returns the path across nodes and the one on
// a node. As for the references, the programs at both ends run outside of
// containers, in the pods' network namespaces: what a container runtime and
// cgroups cost is not the network's.
func (b *bench) podPaths(ctx context.Context, tenant *scene.Tenant, refs *references) (cross, same path, err error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	nodes := b.lab.Nodes()
	pods := []*corev1.Pod{
		tenant.Pod("from", scene.OnNode(nodes[0].Name), idle),
		tenant.Pod("near", scene.OnNode(nodes[0].Name), idle), tenant.Pod("far", scene.OnNode(nodes[1].Name), idle),
	}
	if err := b.stage.Start(ctx, pods...); err != nil {
		return path{}, path{}, err
	}
	var namespaces []string
	for _, pod := range pods {
		ns, err := b.lab.PodNetNS(ctx, pod.Namespace, pod.Name)
		if err != nil {
			return path{}, path{}, err
		}
		namespaces = append(namespaces, ns)
	}
	for _, ns := range namespaces[1:] {
		if err := refs.serve(ns); err != nil {
			return path{}, path{}, err
		}
	}
	run := refs.in(namespaces[0])
	return path{figures.Alioth, run, scene.IP(pods[2], false)}, path{figures.Alioth, run, scene.IP(pods[1], false)}, nil
}

// idle keeps a pod's own container from serving.
func idle(pod *corev1.Pod) { pod.Spec.Containers[0].Command = []string{scene.Tool, "pause"} }

func (b *bench) inPod(pod *corev1.Pod) runner {
	return func(ctx context.Context, arguments ...string) (string, error) {
		return b.stage.Exec(ctx, pod, append([]string{scene.Tool}, arguments...)...)
	}
}

// warmUp waits until every server answers.
func (b *bench) warmUp(ctx context.Context, paths []path) error {
	for _, p := range paths {
		var result report.Probe
		err := ask(ctx, p, &result, "dial", "http", at(p.address, report.PortHTTP)+"/hostname", "--timeout", "20s")
		if err != nil {
			return fmt.Errorf("wait for the server: %w (%s)", err, result.Error)
		}
	}
	return nil
}

func (b *bench) crossNode(ctx context.Context, refs *references, offload string, paths []path) (err error) {
	if err := b.setOffload(ctx, refs, offload); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.setOffload(context.WithoutCancel(ctx), refs, "on")) }()
	jobs := []job{
		newJob("TCP stream", "Gbit/s", "%.2f", stream, paths, figures.Bar{Reference: bridgePath, AtLeast: 1.15}, figures.Bar{Reference: underlayPath, AtLeast: 0.78}),
		newJob(fmt.Sprintf("UDP, %d bytes", fullDatagram), "1000/s", "%.0f", datagrams(fullDatagram), paths, figures.Bar{Reference: bridgePath}, figures.Bar{Reference: underlayPath}),
	}
	if offload == "on" { // small packets are not segmented
		bars := []figures.Bar{{Reference: bridgePath, AtMost: 0.65}, {Reference: underlayPath}}
		jobs = append(jobs,
			newJob(fmt.Sprintf("UDP, %d bytes", smallDatagram), "1000/s", "%.0f", datagrams(smallDatagram), paths, figures.Bar{Reference: bridgePath, AtLeast: 1.2}, figures.Bar{Reference: underlayPath}),
			newJob("TCP round trip p50", "us", "%.1f", roundTrip, paths, bars...), newJob("ping p50", "us", "%.1f", echo, paths, bars...),
		)
	}
	if err := b.measureAll(ctx, "between nodes, offloads "+offload, jobs); err != nil {
		return err
	}
	title := "Between nodes, segmentation offloads of the underlay " + offload
	if offload == "off" {
		title += " (frames of at most the MTU, merged on receipt: as behind a real NIC)"
	}
	return figures.Print(b.out, title, []string{underlayPath, bridgePath, figures.Alioth}, rowsOf(jobs))
}

func (b *bench) sameNode(ctx context.Context, paths []path) error {
	plain, atMost := figures.Bar{Reference: vethPath}, figures.Bar{Reference: vethPath, AtMost: 1.1}
	jobs := []job{
		newJob("TCP stream", "Gbit/s", "%.2f", stream, paths, figures.Bar{Reference: vethPath, AtLeast: 0.95}),
		newJob(fmt.Sprintf("UDP, %d bytes", fullDatagram), "1000/s", "%.0f", datagrams(fullDatagram), paths, plain),
		newJob(fmt.Sprintf("UDP, %d bytes", smallDatagram), "1000/s", "%.0f", datagrams(smallDatagram), paths, plain),
		newJob("TCP round trip p50", "us", "%.1f", roundTrip, paths, atMost), newJob("ping p50", "us", "%.1f", echo, paths, atMost),
	}
	if err := b.measureAll(ctx, "on one node", jobs); err != nil {
		return err
	}
	return figures.Print(b.out, "On one node", []string{vethPath, figures.Alioth}, rowsOf(jobs))
}

func rowsOf(jobs []job) []*figures.Row {
	rows := make([]*figures.Row, len(jobs))
	for i := range jobs {
		rows[i] = jobs[i].row
	}
	return rows
}

// measureAll measures every job over every path, round by round, so that what
// disturbs the machine for a while disturbs all paths.
func (b *bench) measureAll(ctx context.Context, what string, jobs []job) error {
	return b.measureInTurns(ctx, what, jobs, 1)
}

// measureInTurns is measureAll where each round has so many turns, of a share of the
// time each: the kernel puts each turn's processes on processors anew, and whether a
// client shares its server's makes more of a difference than most paths do.
func (b *bench) measureInTurns(ctx context.Context, what string, jobs []job, turns int) error {
	for round := range b.rounds {
		b.step(fmt.Sprintf("%s: round %d of %d", what, round+1, b.rounds))
		for _, j := range jobs {
			for turn := range turns {
				if err := j.measureOnce(ctx, round+turn, b.span/time.Duration(turns)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measureOnce measures every path, beginning with another one each turn.
func (j job) measureOnce(ctx context.Context, turn int, span time.Duration) error {
	for i := range j.paths {
		p := j.paths[(i+turn)%len(j.paths)]
		value, err := j.measure(ctx, p, span)
		if err != nil {
			return err
		}
		j.row.Add(p.name, value)
	}
	return nil
}
