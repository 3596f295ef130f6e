// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/plane"
	"github.com/alioth-net/alioth/test/testtool/report"
)

const (
	// podsPerNode is the number of pods bound to one Node object without a node behind it. A
	// kubelet takes about as many.
	podsPerNode = 100
	// claimPods is how many pods of one subnet wait when an operator starts.
	// claimRounds of them leave more than 5,000 addresses.
	claimPods, claimRounds = 2000, 3
	// creators is how many pods are created at once.
	creators = 8
	// podsPerSecond is the rate of scheduled pods, and ratePods their number in one round.
	podsPerSecond, ratePods = 20, 200
)

// Rates measures the operator against an API server without nodes.
func (b *Bench) Rates(ctx context.Context) (err error) {
	c, err := b.newControl(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	rows, err := b.claimRates(ctx, c)
	if err != nil {
		return err
	}
	measures := []func(context.Context, *control) ([]*figures.Row, error){
		b.networkClaims, b.readiness, b.delays, b.takeovers,
	}
	for _, measure := range measures {
		more, err := measure(ctx, c)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	return figures.Print(
		b.out,
		"The operator, with the chart's roles and policies in force",
		[]string{figures.Alioth, bareClient},
		rows,
	)
}

// claimRates measures how fast claims are made for pods that wait, from the first to the last, as
// seen by a watch of Addresses, and measures their costs. One claim goes with one patch of its pod.
func (b *Bench) claimRates(ctx context.Context, c *control) ([]*figures.Row, error) {
	rate := figures.NewRow(
		fmt.Sprintf("claims for %d pods of one subnet", claimPods),
		"1/s",
		"%.0f",
		figures.Bar{AtLeast: 200},
		figures.Bar{Reference: bareClient},
	)
	lost := figures.NewRow("claims that did not succeed at once", "", "%.0f")
	rows := []*figures.Row{rate, lost}
	costs := map[string]*figures.Row{}
	for _, name := range []string{"kube-apiserver", "etcd", "operator"} {
		costs[name] = figures.NewRow("  CPU per claim, "+name, "ms", "%.2f")
		rows = append(rows, costs[name])
	}
	for round := range min(claimRounds, b.rounds) {
		name := fmt.Sprintf("claims-%d", round)
		if err := b.prepareClaims(ctx, c, name); err != nil {
			return nil, err
		}
		made, err := b.claim(ctx, c, name)
		if err != nil {
			return nil, err
		}
		lost.Add(figures.Alioth, made.failed)
		bare, err := b.claimBare(ctx, c, name, fmt.Sprintf("bare-%d", round))
		if err != nil {
			return nil, err
		}
		b.step(fmt.Sprintf("claims, round %d: %.0f/s, bare %.0f/s", round+1, made.perSecond, bare.perSecond))
		for path, made := range map[string]claims{figures.Alioth: made, bareClient: bare} {
			rate.Add(path, made.perSecond)
			for name, used := range made.cpu {
				costs[name].Add(path, float64(used.Microseconds())/1e3/claimPods)
			}
		}
	}
	return rows, nil
}

// prepareClaims has an operator prepare a tenant, ends it, and lets pods wait.
func (b *Bench) prepareClaims(ctx context.Context, c *control, name string) error {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	r, err := c.Start(ctx, name+"-prepare")
	if err != nil {
		return err
	}
	defer r.End(syscall.SIGTERM)
	if err := errors.Join(c.nodes(ctx, name, claimPods), c.tenant(ctx, name)); err != nil {
		return err
	}
	r.End(syscall.SIGTERM)
	b.step(fmt.Sprintf("creating %d pods", claimPods))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range claimPods {
		group.Go(func() error {
			return c.schedule(groupCtx, name, i)
		})
	}
	return group.Wait()
}

// claims is how the claims of one VPC were made.
type claims struct {
	perSecond, failed float64
	// cpu is the time that each process used from the first claim to the last.
	cpu map[string]time.Duration
}

// claim starts an operator and measures its claims in a VPC.
func (b *Bench) claim(ctx context.Context, c *control, vpc string) (made claims, err error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	events, err := c.watch(ctx, &v1alpha1.AddressList{}, client.MatchingFields{"spec.vpc": vpc})
	if err != nil {
		return made, err
	}
	defer events.Stop()
	r, err := c.Start(ctx, vpc)
	if err != nil {
		return made, err
	}
	defer r.End(syscall.SIGTERM)
	if err := added(ctx, events, 1); err != nil {
		return made, err
	}
	first := time.Now()
	before, err := c.CPUTimes(r)
	if err != nil {
		return made, err
	}
	finish := b.profileOf(ctx, c, vpc)
	if err := added(ctx, events, claimPods-1); err != nil {
		return made, err
	}
	made.perSecond = (claimPods - 1) / time.Since(first).Seconds()
	if made.cpu, err = c.CPUSince(before, r); err != nil {
		return made, err
	}
	made.failed, err = r.Count(ctx, "alioth_operator_writes_total", func(labels map[string]string) bool {
		return labels["kind"] == "Address" && labels["verb"] == "create" && labels["result"] != "ok"
	})
	return made, errors.Join(err, finish())
}

// added waits until count objects were added.
func added(ctx context.Context, events watch.Interface, count int) error {
	for seen := 0; seen < count; {
		event, err := next(ctx, events)
		if err != nil {
			return err
		}
		if event.Type == watch.Added {
			seen++
		}
	}
	return nil
}

// watch watches from the version in the API server's cache, which it sends first: for a
// quiet kind that cache is behind the newest version.
func (c *control) watch(
	ctx context.Context,
	list client.ObjectList,
	options ...client.ListOption,
) (watch.Interface, error) {
	events, err := c.Watch(
		ctx,
		list,
		append(options, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})...)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", list, err)
	}
	return events, nil
}

func next(ctx context.Context, events watch.Interface) (watch.Event, error) {
	select {
	case event, ok := <-events.ResultChan():
		if !ok || event.Type == watch.Error {
			return event, fmt.Errorf("the watch ended: %+v", event.Object)
		}
		return event, nil
	case <-ctx.Done():
		return watch.Event{}, fmt.Errorf("wait for an event: %w", context.Cause(ctx))
	}
}

// readiness measures how long an operator takes from its start to a filled
// store.
func (b *Bench) readiness(ctx context.Context, c *control) ([]*figures.Row, error) {
	var addresses v1alpha1.AddressList
	if err := c.List(ctx, &addresses); err != nil {
		return nil, fmt.Errorf("count addresses: %w", err)
	}
	row := figures.NewRow(
		fmt.Sprintf("ready after its start, %d addresses and as many pods", len(addresses.Items)),
		"s",
		"%.1f",
		figures.Bar{AtMost: 5},
	)
	for round := range b.rounds {
		took, err := c.readyIn(ctx, fmt.Sprintf("ready-%d", round))
		if err != nil {
			return nil, err
		}
		b.step(fmt.Sprintf("ready, round %d: %.1f s", round+1, took.Seconds()))
		row.Add(figures.Alioth, took.Seconds())
	}
	return []*figures.Row{row}, nil
}

func (c *control) readyIn(ctx context.Context, name string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	began := time.Now()
	r, err := c.Start(ctx, name)
	if err != nil {
		return 0, err
	}
	defer r.End(syscall.SIGTERM)
	err = r.Ready(ctx)
	return time.Since(began), err
}

// delays measures the time from the binding of a pod until it has its annotations with
// addresses, as seen by a watch of pods.
func (b *Bench) delays(ctx context.Context, c *control) ([]*figures.Row, error) {
	p50 := figures.NewRow(
		fmt.Sprintf("scheduled to annotated, %d pods/s, p50", podsPerSecond),
		"ms",
		"%.1f",
		figures.Bar{AtMost: 15},
	)
	p99 := figures.NewRow("  p99", "ms", "%.1f", figures.Bar{AtMost: 60})
	r, err := c.Start(ctx, "delays")
	if err != nil {
		return nil, err
	}
	defer r.End(syscall.SIGTERM)
	if err := r.Leads(ctx); err != nil {
		return nil, err
	}
	for round := range b.rounds {
		all, err := c.delaysOf(ctx, fmt.Sprintf("delays-%d", round))
		if err != nil {
			return nil, err
		}
		quantiles := report.QuantilesOf(all)
		b.step(fmt.Sprintf("scheduled to annotated, round %d: p50 %s, p99 %s", round+1, quantiles.P50, quantiles.P99))
		p50.Add(figures.Alioth, float64(quantiles.P50.Microseconds())/1e3)
		p99.Add(figures.Alioth, float64(quantiles.P99.Microseconds())/1e3)
	}
	return []*figures.Row{p50, p99}, nil
}

func (c *control) delaysOf(ctx context.Context, name string) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	if err := errors.Join(c.nodes(ctx, name, ratePods), c.tenant(ctx, name)); err != nil {
		return nil, err
	}
	events, err := c.watch(ctx, &corev1.PodList{}, client.InNamespace(name))
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.schedulePaced(groupCtx, name) })
	var delays []time.Duration
	scheduled := map[string]time.Time{}
	for len(delays) < ratePods {
		event, err := next(groupCtx, events)
		if err != nil {
			return nil, errors.Join(err, group.Wait())
		}
		pod, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type == watch.Deleted {
			continue
		}
		began, known := scheduled[pod.Name]
		switch {
		case !known:
			scheduled[pod.Name] = time.Now()
		case !began.IsZero() && pod.Annotations[v1alpha1.AttachmentsAnnotation] != "":
			delays = append(delays, time.Since(began))
			scheduled[pod.Name] = time.Time{}
		}
	}
	return delays, group.Wait()
}

// schedulePaced makes pods at podsPerSecond.
func (c *control) schedulePaced(ctx context.Context, namespace string) error {
	pace := time.NewTicker(time.Second / podsPerSecond)
	defer pace.Stop()
	for i := range ratePods {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pace.C:
		}
		if err := c.schedule(ctx, namespace, i); err != nil {
			return err
		}
	}
	return nil
}

// takeovers measures how long pods wait after the leader of two replicas was
// killed.
func (b *Bench) takeovers(ctx context.Context, c *control) ([]*figures.Row, error) {
	const name = "takeover"
	row := figures.NewRow("leader killed, until a new pod is annotated", "s", "%.1f", figures.Bar{AtMost: 10})
	leader, err := c.Start(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { leader.End(syscall.SIGKILL) }()
	if err := errors.Join(c.nodes(ctx, name, b.rounds), c.tenant(ctx, name)); err != nil {
		return nil, err
	}
	for round := range b.rounds {
		standby, err := c.Start(ctx, fmt.Sprintf("%s-%d", name, round))
		if err != nil {
			return nil, err
		}
		took, err := c.takeover(ctx, leader, standby, round)
		leader = standby
		if err != nil {
			return nil, err
		}
		b.step(fmt.Sprintf("takeover, round %d: %.1f s", round+1, took.Seconds()))
		row.Add(figures.Alioth, took.Seconds())
	}
	return []*figures.Row{row}, nil
}

func (c *control) takeover(ctx context.Context, leader, standby *plane.Replica, pod int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, setUpTime)
	defer cancel()
	if err := errors.Join(standby.Ready(ctx), leader.Leads(ctx)); err != nil {
		return 0, err
	}
	events, err := c.watch(ctx, &corev1.PodList{}, client.InNamespace("takeover"))
	if err != nil {
		return 0, err
	}
	defer events.Stop()
	leader.End(syscall.SIGKILL)
	killed := time.Now()
	if err := c.schedule(ctx, "takeover", pod); err != nil {
		return 0, err
	}
	for {
		event, err := next(ctx, events)
		if err != nil {
			return 0, err
		}
		if seen, ok := event.Object.(*corev1.Pod); ok && seen.Name == podName(pod) &&
			seen.Annotations[v1alpha1.AttachmentsAnnotation] != "" {
			return time.Since(killed), nil
		}
	}
}
