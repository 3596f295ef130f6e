// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alioth-net/alioth/test/bench/figures"
)

const (
	// normalRate is the rate of pods per second at which times are measured, of normalPods.
	normalRate, normalPods = 10, 100
	// rateSpan is for how long each higher rate is tried. A rate is sustained if the last
	// address is in all plans within sustainedWithin.
	rateSpan        = 5 * time.Second
	sustainedWithin = 2 * time.Second
	highestRate     = 320
)

// Result is what was measured in a lab of one size.
type Result struct {
	Size Size
	// Loaded and Isolated are what each node, by number, has received until it had read its
	// part of the API, and of a pod on node 0 in a VPC of nodes 0 and 1.
	Loaded, Isolated []Counts
	// Normal is Push at normalRate.
	Normal Pushed
	// Sustained is the highest rate that was sustained, in pods per second; 0: none was.
	Sustained int
	// Started and Restarted are the times until an operator was ready.
	Started, Restarted time.Duration
	// Memory is the most that the operator has had resident, in bytes.
	Memory int64
}

// Measure brings a lab up, measures, and removes it.
func Measure(ctx context.Context, root string, size Size, step func(string)) (r Result, err error) {
	l, err := Start(ctx, root, size, step)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, l.Stop()) }()
	r = Result{Size: size, Started: l.ready}
	if err := l.settled(ctx); err != nil {
		return r, err
	}
	r.Loaded = l.Loaded()
	step("one pod of a VPC on two nodes")
	if r.Isolated, err = l.Isolated(ctx); err != nil {
		return r, err
	}
	step(fmt.Sprintf("%d pods of a VPC on all nodes, %d/s", normalPods, normalRate))
	if r.Normal, err = l.Push(ctx, normalPods, normalRate); err != nil {
		return r, err
	}
	if r.Sustained, err = l.sustained(ctx); err != nil {
		return r, err
	}
	step("another operator")
	if r.Restarted, err = l.Restart(ctx); err != nil {
		return r, err
	}
	r.Memory, err = l.OperatorMemory()
	return r, err
}

// sustained doubles the rate until it is not sustained.
func (l *Lab) sustained(ctx context.Context) (highest int, err error) {
	for rate := 2 * normalRate; rate <= highestRate; rate *= 2 {
		l.step(fmt.Sprintf("pods of a VPC on all nodes, %d/s", rate))
		p, err := l.Push(ctx, rate*int(rateSpan/time.Second), rate)
		if err != nil {
			return highest, err
		}
		if p.Last > sustainedWithin {
			break
		}
		highest = rate
	}
	return highest, nil
}

// over collects a quantity of each node's counts.
func over(all []Counts, of func(Counts) float64) (series figures.Series) {
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
func (r Result) AddressEvents() float64 {
	return sum(over(r.Normal.Received, func(c Counts) float64 { return float64(c["addresses"].Events) })) / float64(r.Normal.Pods)
}

// Foreign is how many events, of any kind, a node receives at most because of a pod in a VPC
// that it has nothing of.
func (r Result) Foreign() float64 {
	return over(r.Isolated[2:], func(c Counts) float64 { return float64(c.Total().Events) }).Quantile(1)
}

// CPUPerAddress is the CPU time that a process uses for one pod with its Address, in ms.
func (r Result) CPUPerAddress(process string) float64 {
	return figures.Milliseconds(r.Normal.CPU[process]) / float64(r.Normal.Pods)
}

// LoadedMegabytes is what a node receives until it has read its part of the API, in MB.
func (r Result) LoadedMegabytes() float64 {
	return over(r.Loaded, func(c Counts) float64 { return float64(c.Total().Bytes + c.Total().Listed) }).Median() / 1e6
}
