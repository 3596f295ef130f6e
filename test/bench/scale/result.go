// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/alioth-net/alioth/test/bench/figures"
	"github.com/alioth-net/alioth/test/bench/scale/transport"
)

const (
	// normalRate is the rate of pods per second for the measurement of times, of normalPods.
	normalRate, normalPods = 10, 100
	// rateSpan is for how long each higher rate is tried. A rate is sustained if the last
	// address is in all plans within sustainedWithin.
	rateSpan        = 4 * time.Second
	sustainedWithin = 2 * time.Second
	highestRate     = 320
)

// Result has the figures of a lab of one size.
type Result struct {
	Size Size
	// Loaded has the counts of each hollow node, by number, until it had read its part of the API.
	Loaded []transport.Counts
	// Full is with the Addresses of a VPC on all its nodes, Roles with bouncers.
	Full, Roles Phase
	// Placed is the time until all bouncers served and no other node had tables.
	Placed time.Duration
	// Started and Restarted are the times until an operator was ready.
	Started, Restarted time.Duration
	// Memory is the most that the operator has had resident, in bytes.
	Memory int64
}

// Phase has the figures while the nodes held tables in one way.
type Phase struct {
	// Isolated has the counts of each node, by number, for a pod on node 0 in a VPC of nodes 0 and
	// 1. Concerned are the node of the pod, and the nodes that hold the VPC.
	Isolated  []transport.Counts
	Concerned map[int]bool
	// Normal is Push at normalRate.
	Normal Pushed
	// Sustained is the highest rate that was sustained, in pods per second; 0: none was.
	Sustained int
	// Held is the number of addresses of other nodes that a node without a role holds.
	Held int
}

// Measure brings a lab up, measures, and removes it. After a failure the result has the figures
// measured before.
func Measure(ctx context.Context, c Config) (r Result, err error) {
	r.Size = c.Size
	l, err := Start(ctx, c)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	r.Started = l.ready
	if err := l.settled(ctx); err != nil {
		return r, err
	}
	r.Loaded = l.Loaded()
	if err := l.measure(ctx, "full push", &r.Full); err != nil {
		return r, err
	}
	c.Step(fmt.Sprintf("%d bouncers for each of %d subnets", c.Bouncers, len(l.bouncedVPCs())))
	began := time.Now()
	if err := l.Bounce(ctx); err != nil {
		return r, err
	}
	r.Placed = time.Since(began)
	if err := l.measure(ctx, fmt.Sprintf("%d bouncers", c.Bouncers), &r.Roles); err != nil {
		return r, err
	}
	c.Step("another operator")
	if r.Restarted, err = l.Restart(ctx); err != nil {
		return r, err
	}
	r.Memory, err = l.OperatorMemory()
	return r, err
}

// measure measures a phase.
func (l *Lab) measure(ctx context.Context, name string, p *Phase) (err error) {
	l.step(name + ": one pod of a VPC on two nodes")
	p.Held, p.Concerned = l.held(), map[int]bool{}
	for i := range l.Nodes {
		if i == 0 || l.HoldsIsolated(i) {
			p.Concerned[i] = true
		}
	}
	if p.Isolated, err = l.Isolated(ctx); err != nil {
		return err
	}
	l.step(fmt.Sprintf("%s: %d pods of a VPC on all nodes, %d/s", name, normalPods, normalRate))
	if p.Normal, err = l.Push(ctx, normalPods, normalRate); err != nil {
		return err
	}
	return l.sustain(ctx, name, p)
}

// sustain doubles the rate until it is not sustained.
func (l *Lab) sustain(ctx context.Context, name string, p *Phase) error {
	if p.Normal.Last <= sustainedWithin {
		p.Sustained = normalRate
	}
	for rate := 2 * normalRate; rate <= highestRate && p.Sustained == rate/2; rate *= 2 {
		l.step(fmt.Sprintf("%s: pods of a VPC on all nodes, %d/s", name, rate))
		keeps, err := l.Keeps(ctx, rate*int(rateSpan/time.Second), rate)
		if err != nil {
			return err
		}
		if keeps {
			p.Sustained = rate
		}
	}
	return nil
}

// over collects a quantity of each node's counts.
func over(all []transport.Counts, of func(transport.Counts) float64) (series figures.Series) {
	for _, counts := range all {
		series = append(series, of(counts))
	}
	return series
}

func sum(series figures.Series) (total float64) {
	for _, value := range series {
		total += value
	}
	return total
}

// AddressEvents is how many events all nodes together receive for one Address of a VPC that
// is on every node.
func (p Phase) AddressEvents() float64 {
	return p.perPod(sum(over(p.Normal.Received, func(c transport.Counts) float64 { return float64(c["addresses"].Events) })))
}

// EventBytes is how many bytes of events, of all kinds, all nodes together receive for one
// pod of that VPC.
func (p Phase) EventBytes() float64 {
	return p.perPod(sum(over(p.Normal.Received, func(c transport.Counts) float64 { return float64(c.Total().Bytes) })))
}

// Foreign is how many events, of any kind, a node receives at most because of a pod if it has
// neither the pod nor the table of its VPC. The operator's questions are left out: it repeats
// them when it was elected again, as may happen on a busy machine.
func (p Phase) Foreign() float64 {
	most := 0
	for i, counts := range p.Isolated {
		if !p.Concerned[i] {
			most = max(most, counts.Total().Events-counts["rollcalls"].Events)
		}
	}
	return float64(most)
}

// CPUPerAddress returns the CPU time that a process uses for one pod with its Address, in ms. It is
// not a number if the process did not use more than an idle one.
func (p Phase) CPUPerAddress(process string) float64 {
	if p.Normal.CPU[process] <= 0 {
		return math.NaN()
	}
	return p.perPod(figures.Milliseconds(p.Normal.CPU[process]))
}

func (p Phase) perPod(total float64) float64 { return total / float64(max(p.Normal.Pods, 1)) }

// measured reports whether the phase was measured.
func (p Phase) measured() bool { return len(p.Normal.Received) > 0 }

// LoadedMegabytes returns the data that a node receives until it has read its part of the API, in
// MB.
func (r Result) LoadedMegabytes() float64 {
	return over(r.Loaded, func(c transport.Counts) float64 { return float64(c.Total().Bytes + c.Total().Listed) }).Median() / 1e6
}
