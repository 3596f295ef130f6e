// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// undo restores the former state after a failure. The failure may be the end of ctx, so undo goes
// on without ctx.
func (m *Manager) undo(ctx context.Context, r *Record, cause error) error {
	m.logf("%v: restoring the state before", cause)
	if err := m.restore(context.WithoutCancel(ctx), r); err != nil {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return fmt.Errorf("%w: %w", ErrRolledBack, cause)
}

// restore restores the state before a transaction, and ends it. What fails does not keep
// others from being tried: a host with all but one address is better than one with none.
func (m *Manager) restore(ctx context.Context, r *Record) error {
	if r.Image != nil && !r.Image.NotesOthers() {
		m.noteOthers(ctx, r)
	}
	again := time.NewTicker(m.Interval)
	defer again.Stop()
	for try := 1; ; try++ {
		o := m.lead(ctx, r)
		last := try >= m.Tries
		if last {
			o.giveUpMinor()
		}
		if o.isReached() {
			return m.end(o.gone)
		}
		if last {
			return fmt.Errorf(
				"%w in %d tries, what is missing: %s: %w",
				ErrNotRestored,
				try,
				words(o.left),
				errors.Join(o.unseen, o.failure),
			)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotRestored, ctx.Err())
		case <-again.C:
		}
	}
}

// noteOthers notes what others have added since the change began, and leaves out the routes and
// addresses that they have withdrawn. It is written down before the undo loses some by itself: a
// next process would take those for withdrawn, and would not know of those that were added.
func (m *Manager) noteOthers(ctx context.Context, r *Record) {
	all := r.Image
	now, err := m.Host.Image(ctx, snapshot.Area{})
	if err == nil {
		r.Image = all.WithoutWithdrawn(now).WithOthers(now, r.Area, uptime()-r.Uptime)
		err = m.dir.putRecord(r)
	}
	if err != nil {
		r.Image = all
		m.logf("what others have withdrawn is added again, and what they have added may be lost: %v", err)
	}
}

// outcome describes how far a host was led back.
type outcome struct {
	// left lists the objects that the host lacks, and gone the objects that it can't have any
	// more.
	left []fmt.Stringer
	gone []string
	// failure is why something is left, and unseen why that is not known. resolver is why the
	// file of the resolver is not as it was.
	failure, unseen, resolver error
}

// giveUpMinor gives up objects that do not belong to the former state, and the file of the
// resolver. They do not block the beginning of a later change.
func (o *outcome) giveUpMinor() {
	if o.resolver != nil {
		o.gone, o.resolver = append(o.gone, o.resolver.Error()), nil
	}
	o.left = slices.DeleteFunc(o.left, func(left fmt.Stringer) bool {
		request, is := left.(snapshot.Request)
		if is && request.Theirs {
			o.gone = append(o.gone, fmt.Sprintf("%s, which others had added: the kernel refuses it", request))
		}
		return is && request.Theirs
	})
}

func (o outcome) isReached() bool { return len(o.left) == 0 && o.unseen == nil && o.resolver == nil }

// passes bounds how often leadKernel compares the kernel with its image at once: one request
// may undo the effect of another, as a device that goes down loses its routes.
const passes = 16

// lead leads the host back.
func (m *Manager) lead(ctx context.Context, r *Record) (o outcome) {
	// First the clients: one that the change has started must give the kernel nothing more.
	if r.Automatic != nil {
		o.unseen = m.Host.RestoreAutomatic(r.Automatic)
	}
	o.failure = m.stepBack(ctx, r)
	if r.ResolverFile != nil {
		o.resolver = m.Host.RestoreResolver(*r.ResolverFile)
	}
	m.leadKernel(ctx, r, &o)
	steps, err := m.stepsBack(ctx, r)
	for _, step := range steps {
		o.left = append(o.left, step)
	}
	o.unseen = errors.Join(o.unseen, err)
	return o
}

// leadKernel compares the kernel with its image until nothing is left, or two passes after
// each other find the same.
func (m *Manager) leadKernel(ctx context.Context, r *Record, o *outcome) {
	last := ""
	for pass := 0; r.Image != nil && pass < passes; pass++ {
		now, err := m.Host.Image(ctx, r.Area)
		if err != nil {
			o.unseen = errors.Join(o.unseen, err)
			return
		}
		var requests []snapshot.Request
		requests, o.gone = snapshot.Back(r.Image, now, r.Area, uptime()-r.Uptime)
		o.left = nil
		for _, request := range requests {
			o.left = append(o.left, request)
		}
		shape := fmt.Sprint(o.left)
		if len(requests) == 0 || shape == last {
			return
		}
		last = shape
		o.failure = errors.Join(o.failure, m.replay(ctx, requests))
	}
}

func (m *Manager) replay(ctx context.Context, requests []snapshot.Request) (err error) {
	for _, request := range requests {
		m.logf("%s", request)
		if failure := m.Host.Replay(ctx, request); failure != nil {
			m.logf("%v", failure)
			err = failure // The last one tells enough.
		}
	}
	return err
}

func (m *Manager) stepBack(ctx context.Context, r *Record) error {
	steps, err := m.stepsBack(ctx, r)
	for _, step := range steps {
		m.logf("%s", step)
		err = errors.Join(err, m.Host.Do(ctx, step))
	}
	return err
}

// stepsBack are the steps that lead virtual functions back: their number is a file of the
// driver, and no image has it. A record of an earlier release has no image at all: all steps
// between the documents lead back then.
func (m *Manager) stepsBack(ctx context.Context, r *Record) ([]plan.Step, error) {
	now, err := m.Host.Show(ctx)
	if err != nil {
		return nil, err
	}
	steps := plan.Between(now, target.Back(r.Before, r.Touched))
	if r.Image == nil {
		return steps, nil
	}
	return slices.DeleteFunc(steps, func(step plan.Step) bool {
		_, functions := step.(plan.SetVFs)
		return !functions
	}), nil
}
