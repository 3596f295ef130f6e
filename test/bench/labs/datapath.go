// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package labs

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/packets"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// Datapath measures rates and times between pods against the references.
func (b *Bench) Datapath(ctx context.Context) (err error) {
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
	if err := packets.WarmUp(ctx, slices.Concat(cross, same)); err != nil {
		return err
	}
	for _, offload := range []string{"off", "on"} {
		if err := b.crossNode(ctx, refs, offload, cross); err != nil {
			return err
		}
	}
	return b.sameNode(ctx, same)
}

// podPaths starts three pods and returns the path across nodes and the one on a node. As for the
// references, the programs at both ends run outside of containers, in the pods' network namespaces:
// the costs of a container runtime and of cgroups do not belong to the network.
func (b *Bench) podPaths(
	ctx context.Context,
	tenant *scene.Tenant,
	refs *references,
) (cross, same packets.Path, err error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	nodes := b.lab.Nodes()
	pods := []*corev1.Pod{
		tenant.Pod("from", scene.OnNode(nodes[0].Name), idle),
		tenant.Pod("near", scene.OnNode(nodes[0].Name), idle), tenant.Pod("far", scene.OnNode(nodes[1].Name), idle),
	}
	if err := b.stage.Start(ctx, pods...); err != nil {
		return packets.Path{}, packets.Path{}, err
	}
	var namespaces []string
	for _, pod := range pods {
		ns, err := b.lab.PodNetNS(ctx, pod.Namespace, pod.Name)
		if err != nil {
			return packets.Path{}, packets.Path{}, err
		}
		namespaces = append(namespaces, ns)
	}
	for _, ns := range namespaces[1:] {
		if err := refs.Serve(ns); err != nil {
			return packets.Path{}, packets.Path{}, err
		}
	}
	run := refs.In(namespaces[0])
	cross = packets.Path{Name: figures.Alioth, Run: run, Address: scene.IP(pods[2], false)}
	same = packets.Path{Name: figures.Alioth, Run: run, Address: scene.IP(pods[1], false)}
	return cross, same, nil
}

// idle keeps a pod's own container from serving.
func idle(pod *corev1.Pod) { pod.Spec.Containers[0].Command = []string{scene.Tool, "pause"} }

func (b *Bench) inPod(pod *corev1.Pod) packets.Runner {
	return func(ctx context.Context, arguments ...string) (string, error) {
		return b.stage.Exec(ctx, pod, append([]string{scene.Tool}, arguments...)...)
	}
}

func (b *Bench) crossNode(ctx context.Context, refs *references, offload string, paths []packets.Path) (err error) {
	if err := b.setOffload(ctx, refs, offload); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.setOffload(context.WithoutCancel(ctx), refs, "on")) }()
	jobs := []packets.Job{
		packets.Stream(
			paths,
			figures.Bar{Reference: bridgePath, AtLeast: 1.15},
			figures.Bar{Reference: underlayPath, AtLeast: 0.78},
		),
		packets.FullDatagrams(paths, figures.Bar{Reference: bridgePath}, figures.Bar{Reference: underlayPath}),
	}
	if offload == "on" { // small packets are not segmented
		bars := []figures.Bar{{Reference: bridgePath, AtMost: 0.65}, {Reference: underlayPath}}
		jobs = append(
			jobs,
			packets.SmallDatagrams(
				paths,
				figures.Bar{Reference: bridgePath, AtLeast: 1.2},
				figures.Bar{Reference: underlayPath},
			),
			packets.RoundTrip(paths, bars...),
			packets.Ping(paths, bars...),
		)
	}
	rows, err := b.meter.Measure(ctx, "between nodes, offloads "+offload, jobs)
	if err != nil {
		return err
	}
	title := "Between nodes, segmentation offloads of the underlay " + offload
	if offload == "off" {
		title += " (frames of at most the MTU, merged on receipt: as behind a real NIC)"
	}
	return figures.Print(b.out, title, []string{underlayPath, bridgePath, figures.Alioth}, rows)
}

func (b *Bench) sameNode(ctx context.Context, paths []packets.Path) error {
	plain, atMost := figures.Bar{Reference: vethPath}, figures.Bar{Reference: vethPath, AtMost: 1.1}
	jobs := []packets.Job{
		packets.Stream(paths, figures.Bar{Reference: vethPath, AtLeast: 0.95}),
		packets.FullDatagrams(paths, plain),
		packets.SmallDatagrams(paths, plain),
		packets.RoundTrip(paths, atMost), packets.Ping(paths, atMost),
	}
	rows, err := b.meter.Measure(ctx, "on one node", jobs)
	if err != nil {
		return err
	}
	return figures.Print(b.out, "On one node", []string{vethPath, figures.Alioth}, rows)
}
