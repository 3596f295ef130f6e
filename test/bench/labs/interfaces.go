// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package labs

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

const (
	oneInterface, fourInterfaces = "1 interface", "4 interfaces"
	// benchDevice is the parent of the further interfaces.
	benchDevice = "bench0"
	// singles is the number of pods of each kind that start one after the other in a round, in
	// turns with pods of the other kind, because the speed of the machine changes within seconds.
	// fewPods start at once: their ADDs wait for each other in the kernel.
	singles, fewPods = 8, 8
)

// Interfaces measures the costs of further interfaces for an ADD: three of type macvlan in a
// network outside of every VPC.
func (b *Bench) Interfaces(ctx context.Context) (err error) {
	tenant, remove, err := b.tenant(ctx, "bench-interfaces")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := b.secondNetwork(ctx, tenant); err != nil {
		return err
	}
	one := &crowd{name: oneInterface, lab: b.lab, stage: b.stage, pod: tenant.Pod}
	restore, err := one.logCalls(ctx, cluster.DefaultDir(b.root))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	list := fmt.Sprintf(
		`[{"vpc":%q},{"network":"bench","ip":"dynamic"},{"network":"bench","ip":"dynamic"},{"network":"bench","ip":"dynamic"}]`,
		tenant.VPC.Name,
	)
	four := *one
	four.name, four.pod = fourInterfaces, func(name string, options ...scene.PodOption) *corev1.Pod {
		return tenant.Pod(name, append(options, scene.WithInterfaces(list))...)
	}
	bars := []figures.Bar{{Reference: oneInterface, AtMost: 1.5}}
	rows := []*figures.Row{
		{What: "plugin call, one at a time, p50", Unit: "ms", Format: "%.1f", Subject: fourInterfaces, Bars: bars},
		{What: fmt.Sprintf("plugin call, %d at once, p50", fewPods), Unit: "ms", Format: "%.0f", Subject: fourInterfaces},
	}
	for round := range b.rounds {
		crowds := [][]*crowd{{one, &four}, {&four, one}}[round%2]
		if err := b.measureCalls(ctx, round, crowds, rows); err != nil {
			return err
		}
	}
	return figures.Print(b.out, "An ADD", []string{oneInterface, fourInterfaces}, rows)
}

// measureCalls adds a round to the rows: of single pods, and of several that start at once.
func (b *Bench) measureCalls(ctx context.Context, round int, crowds []*crowd, rows []*figures.Row) error {
	alone := map[string]figures.Series{}
	for range singles {
		for _, c := range crowds {
			if err := awaitRemoval(ctx); err != nil {
				return err
			}
			_, calls, err := c.wave(ctx, 1)
			if err != nil {
				return err
			}
			alone[c.name] = append(alone[c.name], calls...)
		}
	}
	for _, c := range crowds {
		if err := awaitRemoval(ctx); err != nil {
			return err
		}
		_, calls, err := c.wave(ctx, fewPods)
		if err != nil {
			return err
		}
		one, several := alone[c.name].Quantile(0.5), calls.Quantile(0.5)
		b.step(
			fmt.Sprintf(
				"round %d of %d, %s: plugin call p50 %.1f ms, %d at once %.0f ms",
				round+1,
				b.rounds,
				c.name,
				one,
				fewPods,
				several,
			),
		)
		rows[0].Add(c.name, one)
		rows[1].Add(c.name, several)
	}
	return nil
}

// secondNetwork makes a network on a device of its own. The device ends with the lab, the
// network with the tenant.
func (b *Bench) secondNetwork(ctx context.Context, tenant *scene.Tenant) error {
	for _, node := range b.lab.Nodes() {
		command := fmt.Sprintf(
			"ip link show %[1]s || ip link add %[1]s type veth peer name %[1]sp && ip link set %[1]s up && ip link set %[1]sp up",
			benchDevice,
		)
		if out, err := b.lab.NodeExec(ctx, node.Name, "sh", "-c", command); err != nil {
			return fmt.Errorf("make a device on %s: %w: %s", node.Name, err, out)
		}
	}
	network := &danmv1.DanmNet{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace.Name, Name: "bench"},
		Spec: danmv1.NetworkSpec{
			NetworkID: "bench", NetworkType: "macvlan", Options: danmv1.NetworkOptions{HostDevice: benchDevice, CIDR: "10.51.0.0/16"},
		},
	}
	if err := b.stage.Create(ctx, network); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	return scene.Until(ctx, "the network is Ready", func(ctx context.Context) (bool, string, error) {
		err := b.stage.Client.Get(ctx, client.ObjectKeyFromObject(network), network)
		return meta.IsStatusConditionTrue(
				network.Status.Conditions,
				v1alpha1.ReadyCondition,
			), fmt.Sprintf(
				"%+v",
				network.Status,
			), err
	})
}
