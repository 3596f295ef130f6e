// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe asks whether a host still reaches what it needs. A change of its network
// that ends a connection which worked before is undone.
package probe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Probe is one question.
type Probe struct {
	// Name is what is reached, for people.
	Name string
	// Check returns nil if it is reached. It ends with ctx.
	Check func(ctx context.Context) error
}

// attempt bounds one attempt of a probe, pause is between two.
const attempt, pause = 3 * time.Second, 500 * time.Millisecond

// Passing returns those that pass now, each with one attempt.
func Passing(ctx context.Context, probes []Probe) []Probe {
	passed := make([]bool, len(probes))
	done := make(chan struct{})
	for i, p := range probes {
		go func() {
			passed[i] = once(ctx, p) == nil
			done <- struct{}{}
		}()
	}
	for range probes {
		<-done
	}
	var list []Probe
	for i, p := range probes {
		if passed[i] {
			list = append(list, p)
		}
	}
	return list
}

// Await returns when all pass, each at some moment, or why one does not until limit is
// over or ctx ends.
func Await(ctx context.Context, probes []Probe, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	failures := make(chan error)
	for _, p := range probes {
		go func() { failures <- await(ctx, p) }()
	}
	var all []error
	for range probes {
		all = append(all, <-failures)
	}
	return errors.Join(all...)
}

func await(ctx context.Context, p Probe) error {
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		err := once(ctx, p)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was reached before and is not now: %w", p.Name, err)
		case <-again.C:
		}
	}
}

func once(ctx context.Context, p Probe) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	return p.Check(ctx)
}
