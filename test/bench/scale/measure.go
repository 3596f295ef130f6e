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

	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/plane"
)

// Loaded returns what each node, by number, has received since it started.
func (l *Lab) Loaded() []Counts { return l.counts() }

// Isolated makes a pod on node 0 in a VPC that has pods on nodes 0 and 1 alone. It returns
// what each node, by number, has received because of it.
func (l *Lab) Isolated(ctx context.Context) ([]Counts, error) {
	if err := l.settled(ctx); err != nil {
		return nil, err
	}
	before := l.counts()
	if _, err := bind(ctx, l, narrow(0), podName(l.PodsPerNode+l.isolated), nodeName(0)); err != nil {
		return nil, err
	}
	l.isolated++
	return l.delivered(ctx, before, narrow(0), l.PodsPerNode+l.isolated)
}

// delivered returns what each node has received since before, once the pods of a namespace
// have addresses, the counters include them and nothing more comes.
func (l *Lab) delivered(ctx context.Context, before []Counts, namespace string, pods int) ([]Counts, error) {
	for _, wait := range []func() error{
		func() error { return l.annotated(ctx, namespace, pods) },
		func() error { return l.counted(ctx) },
		func() error { return l.settled(ctx) },
	} {
		if err := wait(); err != nil {
			return nil, err
		}
	}
	var all []Counts
	for i, now := range l.counts() {
		all = append(all, now.Since(before[i]))
	}
	return all, nil
}

// Pushed is what it cost to make pods of a VPC that is on every node.
type Pushed struct {
	// Pods that were made, one Address each.
	Pods int
	// Attached has, for each pod of a hollow node, the time from the request for the pod
	// until its ADD could return. Everywhere has, for each pod, that until the plans of all
	// hollow nodes have its address. Both are in milliseconds.
	Attached, Everywhere figures.Series
	// CPU is what the processes used from the first request until Everywhere, by name.
	CPU map[string]time.Duration
	// Received by each node, by number.
	Received []Counts
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
	before := l.counts()
	cpu, err := l.CPUTimes(l.operator)
	if err != nil {
		return p, err
	}
	made, err := l.paced(ctx, pods, perSecond)
	if err != nil {
		return p, err
	}
	last := time.Now()
	if err := l.everywhere(ctx, made, &p); err != nil {
		return p, err
	}
	p.Last = time.Since(last)
	if p.CPU, err = l.CPUSince(cpu, l.operator); err != nil {
		return p, err
	}
	p.Received, err = l.delivered(ctx, before, wide, l.pods)
	return p, err
}

// request is a pod that was asked for.
type request struct {
	name string
	node int
	at   time.Time
}

// paced asks for pods of the wide VPC at a rate, whether the last ones are there or not.
func (l *Lab) paced(ctx context.Context, pods, perSecond int) (made []request, err error) {
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
		next := request{name: podName(l.pods), node: l.pods % l.Nodes, at: time.Now()}
		l.pods++
		group.Go(func() error {
			_, err := bind(groupCtx, l, wide, next.name, nodeName(next.node))
			mu.Lock()
			defer mu.Unlock()
			made = append(made, next)
			return err
		})
	}
	return made, group.Wait()
}

// everywhere waits until the plans of all hollow nodes have the addresses of pods, and
// notes how long that took.
func (l *Lab) everywhere(ctx context.Context, made []request, p *Pushed) error {
	if err := l.annotated(ctx, wide, l.pods); err != nil {
		return err
	}
	addresses, err := addressesOf(ctx, l, wide)
	if err != nil {
		return err
	}
	for _, pod := range made {
		address := addresses[pod.name]
		if address == nil {
			return fmt.Errorf("pod %s has no Address", pod.name)
		}
		ip, err := netip.ParseAddr(address.Spec.IP)
		if err != nil {
			return fmt.Errorf("read Address %s: %w", address.Name, err)
		}
		var latest time.Time
		for i, h := range l.hollow {
			at, err := h.programmer.await(ctx, ip, i == pod.node)
			if err != nil {
				return fmt.Errorf("wait for %s in the plans of node %s: %w", ip, h.name, err)
			}
			if i == pod.node {
				p.Attached = append(p.Attached, figures.Milliseconds(at.Sub(pod.at)))
			}
			if at.After(latest) {
				latest = at
			}
		}
		p.Everywhere = append(p.Everywhere, figures.Milliseconds(latest.Sub(pod.at)))
	}
	return nil
}

// Restart ends the operator and starts another one. It returns the time until that is
// ready, once it leads and all nodes have answered its roll call.
func (l *Lab) Restart(ctx context.Context) (time.Duration, error) {
	replies, err := l.replies(ctx)
	if err != nil {
		return 0, err
	}
	l.operator.End(syscall.SIGTERM)
	began := time.Now()
	next, err := l.Start(ctx, "restarted")
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

// OperatorMemory returns the most memory that the operator has had resident, in bytes.
func (l *Lab) OperatorMemory() (int64, error) { return plane.PeakMemory(l.operator.PID()) }

// Held returns how many addresses the plans of the hollow nodes have, by number, without
// gateways.
func (l *Lab) Held() (all []int) {
	for _, h := range l.hollow {
		all = append(all, h.programmer.held())
	}
	return all
}
