// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe asks whether a host reaches its targets. The engine undoes a change of the
// network that ends a formerly working connection, or whose new gateway does not answer.
//
// Change decides about the questions, and has no effects. The package only sends requests for
// Ethernet addresses of gateways, echo requests, DNS queries for one public name, and TCP
// connections without data.
package probe

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Probe is one question.
type Probe struct {
	// Name is the name of the target, for people, and Asked the way of asking.
	Name, Asked string
	// Check returns nil if it is reached. It ends with ctx.
	Check func(ctx context.Context) error
}

// attempt bounds one attempt of a probe, pause is between two.
const attempt, pause = 3 * time.Second, 500 * time.Millisecond

// passing reports for each probe whether it passes now, with one attempt.
func passing(ctx context.Context, probes []Probe) []bool {
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
	return passed
}

// Await returns when all pass, each at some moment, or why one does not until limit is
// over or ctx ends.
func Await(ctx context.Context, probes []Probe, limit time.Duration) error {
	since := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	failures := make([]error, len(probes))
	done := make(chan struct{})
	for i, p := range probes {
		go func() {
			if err := await(ctx, p); err != nil {
				failures[i] = fmt.Errorf(
					"%s does not answer since %s, asked by %s: %w",
					p.Name,
					since.UTC().Format(time.RFC3339),
					p.Asked,
					err,
				)
			}
			done <- struct{}{}
		}()
	}
	for range probes {
		<-done
	}
	return errors.Join(failures...)
}

// await returns when a probe passes, or with the failure of its last whole attempt.
func await(ctx context.Context, p Probe) (last error) {
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		err := once(ctx, p)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-again.C:
		}
	}
}

func once(ctx context.Context, p Probe) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	return p.Check(ctx)
}

// anyOf returns a check that passes if one of some checks does.
func anyOf(checks []func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		failures := make([]error, len(checks))
		done := make(chan int, len(checks))
		for n, check := range checks {
			go func() {
				failures[n] = check(ctx)
				done <- n
			}()
		}
		for range checks {
			if failures[<-done] == nil {
				return nil
			}
		}
		return errors.Join(failures...) // in the order of the checks: the same cause has the same text
	}
}
