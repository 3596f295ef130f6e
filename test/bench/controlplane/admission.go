// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/plane"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// size is the number of objects when one more is written, and how long a user may wait for the
// write.
type size struct {
	vpcs, subnets, withinMs int
}

func sizes() []size { return []size{{200, 1000, 100}, {1000, 5000, 300}} }

// noPolicies is the path of the same writes before there are policies.
const noPolicies = "no policies"

// writers is how many requests fill the API server at a time.
const writers = 16

// Admission measures the costs of the policies, above all of policies with parameters, on API
// servers of its own: no operator works on the objects meanwhile.
func (b *Bench) Admission(ctx context.Context) error {
	for _, s := range sizes() {
		if err := b.admissionAt(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bench) admissionAt(ctx context.Context, s size) error {
	server, err := apiserver.New(ctx)
	if err != nil {
		return err
	}
	defer server.Stop()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("register API kinds: %w", err)
	}
	c, err := client.New(server.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	p := &policyCost{size: s, api: c, samples: b.rounds * samplesPerRound}
	if err := p.fill(ctx); err != nil {
		return err
	}
	b.step(fmt.Sprintf("created %d VPCs and %d subnets", s.vpcs, s.subnets))
	if err := p.measure(ctx, noPolicies); err != nil {
		return err
	}
	policies, err := b.policies(ctx)
	if err != nil {
		return err
	}
	if err := p.enforce(ctx, policies); err != nil {
		return err
	}
	if err := p.measure(ctx, figures.Alioth); err != nil {
		return err
	}
	b.step(fmt.Sprintf("wrote %d objects of each kind, before and after the policies", p.samples))
	title := fmt.Sprintf("One write among %d VPCs and %d subnets", s.vpcs, s.subnets)
	return figures.Print(b.out, title, []string{noPolicies, figures.Alioth}, p.rows)
}

// policies returns the policies and their bindings that the chart renders.
func (b *Bench) policies(ctx context.Context) ([]*unstructured.Unstructured, error) {
	objects, err := plane.Render(ctx, b.root, b.step)
	return slices.DeleteFunc(objects, func(object *unstructured.Unstructured) bool {
		return object.GroupVersionKind().Group != admissionregistrationv1.GroupName
	}), err
}

// policyCost measures writes to an API server.
type policyCost struct {
	size
	api     client.Client
	samples int
	// written counts objects, so that each has a name and a range of its own.
	written int
	rows    []*figures.Row
}

func benchVPC(i int) *v1alpha1.VPC {
	return &v1alpha1.VPC{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("vpc-%d", i)},
		Spec:       v1alpha1.VPCSpec{CIDRs: []string{"10.0.0.0/12", "fd10::/32"}},
	}
}

// benchSubnet returns the range n (1 to 4095) of a VPC.
func benchSubnet(vpc, n int) *v1alpha1.Subnet {
	return &v1alpha1.Subnet{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("subnet-%d-%d", vpc, n)},
		Spec: v1alpha1.SubnetSpec{
			VPC: fmt.Sprintf("vpc-%d", vpc), Name: fmt.Sprintf("net%d", n),
			CIDRs: []string{fmt.Sprintf("10.%d.%d.0/24", n>>8, n&0xff), fmt.Sprintf("fd10:0:0:%x::/64", n)},
		},
	}
}

func benchPod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault,
			Name:      fmt.Sprintf("pod-%d", i),
			Labels:    map[string]string{arktosv1.NetworkLabel: "vpc-0"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example.com/none",
			ReadinessProbe: &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
			},
		}}},
	}
}

func (p *policyCost) fill(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range p.vpcs {
		group.Go(func() error { return p.api.Create(ctx, benchVPC(i)) })
	}
	for i := range p.subnets {
		group.Go(func() error { return p.api.Create(ctx, benchSubnet(i%p.vpcs, i/p.vpcs+1)) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("fill the API server: %w", err)
	}
	return nil
}

// enforce creates policies and returns when they are in force.
func (p *policyCost) enforce(ctx context.Context, policies []*unstructured.Unstructured) error {
	for _, policy := range policies {
		if err := p.api.Create(ctx, policy); err != nil {
			return fmt.Errorf("create %s %s: %w", policy.GetKind(), policy.GetName(), err)
		}
	}
	overlapping := benchSubnet(0, 1)
	overlapping.Name = "overlapping"
	err := wait.PollUntilContextTimeout(
		ctx,
		100*time.Millisecond,
		setUpTime,
		true,
		func(ctx context.Context) (bool, error) {
			err := p.api.Create(ctx, overlapping.DeepCopy(), client.DryRunAll)
			if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
				return strings.Contains(err.Error(), "must not overlap the subnet"), nil
			}
			return false, err
		},
	)
	if err != nil {
		return fmt.Errorf("wait for the policies: %w", err)
	}
	return nil
}

// measure writes objects one after the other and adds how long each took.
func (p *policyCost) measure(ctx context.Context, path string) error {
	var creations, finalizers, growths, pods []time.Duration
	for range p.samples {
		p.written++
		subnet := benchSubnet(p.written%p.vpcs, 1000+p.written)
		vpc := benchVPC(p.vpcs + p.written)
		if err := p.api.Create(ctx, vpc); err != nil {
			return fmt.Errorf("create a VPC: %w", err)
		}
		for _, step := range []struct {
			times *[]time.Duration
			do    func() error
		}{
			{&creations, func() error { return p.api.Create(ctx, subnet) }},
			{&finalizers, func() error {
				subnet.Finalizers = []string{"example.com/bench"}
				return p.api.Update(ctx, subnet)
			}},
			{&growths, func() error {
				vpc.Spec.CIDRs[0] = "10.0.0.0/11"
				return p.api.Update(ctx, vpc)
			}},
			{&pods, func() error { return p.api.Create(ctx, benchPod(p.written)) }},
		} {
			begin := time.Now()
			if err := step.do(); err != nil {
				return fmt.Errorf("write an object: %w", err)
			}
			*step.times = append(*step.times, time.Since(begin))
		}
	}
	p.add(path, "create a Subnet", creations)
	p.add(path, "change a Subnet's finalizers", finalizers)
	p.add(path, "grow a VPC", growths)
	p.add(path, "create a pod", pods)
	return nil
}

func (p *policyCost) add(path, what string, times []time.Duration) {
	quantiles := report.QuantilesOf(times)
	p.row(what+", p50").Add(path, figures.Milliseconds(quantiles.P50))
	p.row(what+", p99").Add(path, figures.Milliseconds(quantiles.P99))
}

func (p *policyCost) row(what string) *figures.Row {
	for _, row := range p.rows {
		if row.What == what {
			return row
		}
	}
	row := &figures.Row{
		What:    what,
		Unit:    "ms",
		Format:  "%.1f",
		Subject: figures.Alioth,
		Bars:    []figures.Bar{{AtMost: float64(p.withinMs)}},
	}
	p.rows = append(p.rows, row)
	return row
}
