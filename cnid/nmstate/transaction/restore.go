// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// undo restores the state before after a failure. The end of ctx, with which the failure
// may have begun, does not end it.
func (m *Manager) undo(ctx context.Context, r *Record, cause error) error {
	m.logf("%v: restoring the state before", cause)
	if err := m.restore(context.WithoutCancel(ctx), r); err != nil {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return fmt.Errorf("%w: %w", ErrRolledBack, cause)
}

// restore restores the state before a transaction, and ends it. Steps that fail do not
// keep others from being tried: a host with all but one address is better than one with
// none.
func (m *Manager) restore(ctx context.Context, r *Record) error {
	again := time.NewTicker(m.Interval)
	defer again.Stop()
	for try := 1; ; try++ {
		failure := m.stepBack(ctx, r)
		left, err := m.stepsBack(ctx, r)
		if err == nil && len(left) == 0 {
			return m.dir.removeRecord()
		}
		if try >= m.Tries {
			return fmt.Errorf("%w in %d tries, what is missing: %s: %w", ErrNotRestored, try, words(left), errors.Join(failure, err))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotRestored, ctx.Err())
		case <-again.C:
		}
	}
}

func (m *Manager) stepBack(ctx context.Context, r *Record) error {
	steps, err := m.stepsBack(ctx, r)
	for _, step := range steps {
		m.logf("%s", step)
		err = errors.Join(err, m.Host.Do(ctx, step))
	}
	return err
}

// stepsBack are the steps from what is now to what was.
func (m *Manager) stepsBack(ctx context.Context, r *Record) ([]plan.Step, error) {
	now, err := m.Host.Show(ctx)
	if err != nil {
		return nil, err
	}
	return plan.Between(now, back(r, now)), nil
}

// back is the target that restores what a transaction has touched. Routes and rules that
// others have added or removed meanwhile stay as they are.
func back(r *Record, now *document.State) *target.Target {
	t := target.Back(r.Before, r.Touched)
	kept, lost := routingOf(now).without(r.Added), r.Removed
	onTouched := r.onTouched()
	kept.Routes = slices.DeleteFunc(kept.Routes, onTouched)
	untouched := func(route document.Route) bool { return !onTouched(route) }
	lost.Routes = append(slices.DeleteFunc(slices.Clone(routingOf(r.Before).Routes), untouched),
		slices.DeleteFunc(slices.Clone(lost.Routes), onTouched)...)
	restored := kept.and(lost.without(kept))
	t.Routes, t.Rules, t.Resolver = restored.Routes, restored.Rules, nil
	if r.Resolver && r.Before.DNS != nil {
		t.Resolver = r.Before.DNS.Config
	}
	return t
}

// onTouched reports whether a route goes with an interface that the transaction touches:
// it leads there, or the interface has its source address.
func (r *Record) onTouched() func(document.Route) bool {
	sources := map[string]bool{}
	for _, i := range r.Before.Interfaces {
		if !slices.Contains(r.Touched, i.Name) {
			continue
		}
		for _, family := range []*document.IP{i.IPv4, i.IPv6} {
			if family == nil {
				continue
			}
			for _, address := range family.Addresses {
				sources[address.IP] = true
			}
		}
	}
	return func(route document.Route) bool {
		return slices.Contains(r.Touched, route.Interface) || sources[route.Source]
	}
}
