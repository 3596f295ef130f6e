// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/plane"
	"github.com/alioth-net/alioth/test/bench/scale/transport"
)

// Loaded returns the counts of each hollow node, by number, since it started.
func (l *Lab) Loaded() []transport.Counts { return l.counts()[:l.Hollow] }

// Isolated makes a pod on node 0 in a VPC that has pods on nodes 0 and 1 alone. It returns the
// counts that each node, by number, has received because of it.
func (l *Lab) Isolated(ctx context.Context) ([]transport.Counts, error) {
	if err := l.settled(ctx); err != nil {
		return nil, err
	}
	l.idle = nil
	before, name := l.counts(), podName(l.addressesIn(narrow(0)))
	if err := bind(ctx, l, narrow(0), name, nodeName(0)); err != nil {
		return nil, err
	}
	l.isolated++
	if err := l.annotated(ctx, narrow(0), []string{name}); err != nil {
		return nil, err
	}
	return l.delivered(ctx, before, narrow(0))
}

// delivered returns the counts of each node since before, once the counters of a VPC include all
// its pods and nothing further comes.
func (l *Lab) delivered(ctx context.Context, before []transport.Counts, vpc string) ([]transport.Counts, error) {
	if err := l.counted(ctx, vpc); err != nil {
		return nil, err
	}
	if err := l.settled(ctx); err != nil {
		return nil, err
	}
	var all []transport.Counts
	for i, now := range l.counts() {
		all = append(all, now.Since(before[i]))
	}
	return all, nil
}

// Pushed has the costs of making pods of a VPC that is on every node.
type Pushed struct {
	// Pods that were made, one Address each.
	Pods int
	// Attached has, for each pod of a hollow node, the time from the request for the pod
	// until its ADD could return. Everywhere has, for each pod, the time until the plans
	// of all hollow nodes that hold its VPC have its address. Both are in milliseconds.
	Attached, Everywhere figures.Series
	// CPU is the time that the processes used from the first request until all was delivered, by
	// name, without the time that idle processes use.
	CPU map[string]time.Duration
	// Received by each node, by number.
	Received []transport.Counts
	// Last is the time from the last request for a pod until the plans of all hollow nodes
	// have all addresses.
	Last time.Duration
}

// Push makes pods in the wide VPC at a rate, on all nodes in turn.
func (l *Lab) Push(ctx context.Context, pods, perSecond int) (p Pushed, err error) {
	if err := l.settled(ctx); err != nil {
		return p, err
	}
	p.Pods = pods
	began := time.Now()
	before := l.counts()
	cpu, err := l.CPUTimes(l.operator)
	if err != nil {
		return p, err
	}
	made, err := l.paced(ctx, pods, perSecond)
	if err != nil {
		return p, err
	}
	if err := l.everywhere(ctx, made, &p); err != nil {
		return p, err
	}
	if p.Received, err = l.delivered(ctx, before, wide); err != nil {
		return p, err
	}
	if p.CPU, err = l.CPUSince(cpu, l.operator); err != nil {
		return p, err
	}
	// l.idle is from after the pods: before them, the operator may still be at work that no
	// node receives.
	for name, perSecond := range l.idle {
		p.CPU[name] -= time.Duration(float64(perSecond) * time.Since(began).Seconds())
	}
	return p, nil
}

// Keeps reports whether a rate of pods in the wide VPC is sustained: the last address is in
// all plans soon after the last request.
func (l *Lab) Keeps(ctx context.Context, pods, perSecond int) (bool, error) {
	made, err := l.paced(ctx, pods, perSecond)
	if err != nil {
		return false, err
	}
	var p Pushed
	err = l.everywhere(ctx, made, &p)
	return p.Last <= sustainedWithin, err
}

// request is a pod that was asked for.
type request struct {
	name string
	node int
	at   time.Time
}

// paced asks for pods of the wide VPC at a rate, whether the last ones are there or not.
func (l *Lab) paced(ctx context.Context, pods, perSecond int) (made []request, err error) {
	l.idle = nil
	pace := time.NewTicker(time.Second / time.Duration(perSecond))
	defer pace.Stop()
	var mu sync.Mutex
	group, groupCtx := errgroup.WithContext(ctx)
	for range pods {
		select {
		case <-groupCtx.Done():
			return nil, errors.Join(context.Cause(groupCtx), group.Wait())
		case <-pace.C:
		}
		next := request{name: podName(l.pods), node: l.hostInWide(l.pods), at: time.Now()}
		l.pods++
		group.Go(func() error {
			err := bind(groupCtx, l, wide, next.name, nodeName(next.node))
			mu.Lock()
			defer mu.Unlock()
			made = append(made, next)
			return err
		})
	}
	return made, group.Wait()
}

// everywhere waits until the plans of all hollow nodes that hold the wide VPC have the addresses of
// pods, and until the plans of the pods' nodes have them too. It notes how long that took.
func (l *Lab) everywhere(ctx context.Context, made []request, p *Pushed) error {
	var names []string
	for _, pod := range made {
		names = append(names, pod.name)
	}
	if err := l.annotated(ctx, wide, names); err != nil {
		return err
	}
	addresses, err := addressesOf(ctx, l, wide)
	if err != nil {
		return err
	}
	var last, latest time.Time
	for _, pod := range made {
		at, err := l.everyPlan(ctx, pod, addresses[pod.name], p)
		if err != nil {
			return err
		}
		last, latest = later(last, pod.at), later(latest, at)
		p.Everywhere = append(p.Everywhere, figures.Milliseconds(at.Sub(pod.at)))
	}
	p.Last = latest.Sub(last)
	return nil
}

// everyPlan returns when the last plan that needs the address of a pod had it first, and
// notes when it was attached on its own node.
func (l *Lab) everyPlan(ctx context.Context, pod request, address *v1alpha1.Address, p *Pushed) (latest time.Time, err error) {
	if address == nil {
		return latest, fmt.Errorf("pod %s has no Address", pod.name)
	}
	ip, err := netip.ParseAddr(address.Spec.IP)
	if err != nil {
		return latest, fmt.Errorf("read Address %s: %w", address.Name, err)
	}
	for i, h := range l.hollow {
		if i != pod.node && !l.HoldsWide(i) {
			continue
		}
		at, err := h.programmer.await(ctx, ip, i == pod.node)
		if err != nil {
			return latest, fmt.Errorf("wait for %s in the plans of node %s: %w", ip, h.name, err)
		}
		if i == pod.node {
			p.Attached = append(p.Attached, figures.Milliseconds(at.Sub(pod.at)))
		}
		latest = later(latest, at)
	}
	return latest, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Restart ends the operator and starts another one. It returns the time until the new operator is
// ready: it leads, and all nodes have answered its roll call.
func (l *Lab) Restart(ctx context.Context) (time.Duration, error) {
	replies, err := l.replies(ctx)
	if err != nil {
		return 0, err
	}
	if l.memory, err = l.OperatorMemory(); err != nil {
		return 0, err
	}
	l.idle = nil
	l.operator.End(syscall.SIGTERM)
	began := time.Now()
	next, err := l.start(ctx, "restarted")
	if err != nil {
		return 0, err
	}
	l.operator = next
	if err := next.Ready(ctx); err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, errors.Join(next.Leads(ctx), l.answered(ctx, setOf(replies)))
}

// setOf has the values of a map.
func setOf(values map[string]string) map[string]bool {
	set := map[string]bool{}
	for _, value := range values {
		set[value] = true
	}
	return set
}

// OperatorMemory returns the most memory that an operator has had resident, in bytes.
func (l *Lab) OperatorMemory() (int64, error) {
	now, err := plane.PeakMemory(l.operator.PID())
	return max(now, l.memory), err
}

// held returns the number of other nodes' addresses in the plan of a node that has pods of two
// narrow VPCs and of the wide one, and no role.
func (l *Lab) held() int {
	own := addressesOfNode
	for i := range l.Nodes + 1 {
		own += l.podsOn(i, 0)
	}
	return l.hollow[0].programmer.held() - own
}
