// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// Options are the options of one Apply.
type Options struct {
	// Timeout is from the begin of the transaction until the guard rolls it back.
	Timeout time.Duration
	// NoCommit leaves it open until somebody commits it, or Timeout is over.
	NoCommit bool
	// NoVerify does not compare the host with the desired state afterwards.
	NoVerify bool
	// NoWait does not wait for the addresses of interfaces that are configured automatically.
	NoWait bool
	// NoProbe does not ask afterwards whether gateways and others are reached.
	NoProbe bool
	// ProbeLimit is the time limit for the probes; 0 means the limit of the Manager.
	ProbeLimit time.Duration
	// Reach are targets that have to be reached after the change, and Kept those that have to be
	// if they are before it.
	Reach, Kept []reach.Target
}

// Result lists the steps of an Apply, and holds its open transaction.
type Result struct {
	// Steps were carried out. Without any the host had the desired state.
	Steps []plan.Step
	// Open is the transaction that waits for its commit, or nil.
	Open *Record
}

// Plan returns the steps from the present state to a desired state, and carries out none.
func (m *Manager) Plan(ctx context.Context, desired *document.State) ([]plan.Step, error) {
	c, err := m.prepare(ctx, desired)
	return c.steps, err
}

// change is a desired state as it was compared with the host.
type change struct {
	desired, before *document.State
	target          *target.Target
	steps           []plan.Step
}

func (c change) wanted() Routing  { return Routing{Routes: c.target.Routes, Rules: c.target.Rules} }
func (c change) added() Routing   { return c.wanted().without(routingOf(c.before)) }
func (c change) removed() Routing { return routingOf(c.before).without(c.wanted()) }

// declared are the interfaces that the document names, as they shall be, with the families that
// it configures automatically. Others may be automatic by a setting of the kernel.
func (c change) declared() (list []document.Interface) {
	named := byName(c.desired.Interfaces)
	for _, i := range c.target.Interfaces {
		want, is := named[i.Name]
		if !is || i.State != document.Up {
			continue
		}
		if !want.IPv4.IsAutomatic() {
			i.IPv4 = nil
		}
		if !want.IPv6.IsAutomatic() {
			i.IPv6 = nil
		}
		list = append(list, i)
	}
	return list
}

func (m *Manager) prepare(ctx context.Context, desired *document.State) (c change, err error) {
	if c.before, err = m.Host.Show(ctx); err != nil {
		return c, err
	}
	if c.desired, err = m.concerned(ctx, desired, c.before); err != nil {
		return c, err
	}
	if c.target, err = target.Resolve(c.desired, c.before); err != nil {
		return c, err
	}
	c.steps = plan.Between(c.before, c.target)
	if len(c.steps) > 0 {
		err = m.Permit(c.before, c.steps)
	}
	return c, err
}

// Apply changes the host to a desired state, or restores the state before and returns an
// ErrRolledBack with the cause.
func (m *Manager) Apply(ctx context.Context, desired *document.State, o Options) (result *Result, err error) {
	if o.Timeout <= 0 {
		return nil, fmt.Errorf("timeout %s: want a time in which the change can be made, for example 1m", o.Timeout)
	}
	err = m.locked(ctx, func(open *Record) error {
		if open != nil {
			return fmt.Errorf("%w since %s, until %s: commit it or roll it back", ErrOpen,
				open.Begun.Format(time.RFC3339), open.Deadline.Format(time.RFC3339))
		}
		c, err := m.prepare(ctx, desired)
		if err == nil {
			result, err = m.apply(ctx, c, o)
		}
		return err
	})
	return result, err
}

func (m *Manager) apply(ctx context.Context, c change, o Options) (*Result, error) {
	committed, err := m.dir.committed()
	if err != nil {
		return nil, err
	}
	r, err := m.newRecord(c, o, committed)
	if err != nil {
		return nil, err
	}
	if len(c.steps) == 0 {
		return &Result{}, errors.Join(m.dir.keep(r.Committed), m.keepDevices(r.Devices))
	}
	if err := m.keep(ctx, r, c); err != nil {
		return nil, err
	}
	ask := m.asked(ctx, c, o, committed, r)
	if err := m.begin(r); err != nil {
		return nil, err
	}
	limited, cancel := context.WithDeadline(ctx, r.Deadline.Add(-reserve(o.Timeout)))
	defer cancel()
	err = m.reach(limited, r, c, o, ask)
	if err == nil {
		err = m.identify(ctx, r, c)
	}
	if err != nil {
		return nil, m.undo(ctx, r, err)
	}
	if !o.NoCommit {
		return &Result{Steps: c.steps}, m.commit(r)
	}
	r.Waiting = true
	return &Result{Steps: c.steps, Open: r}, m.dir.putRecord(r)
}

// reserve is the part of a timeout that is kept for an undo by the process itself. At the
// deadline the guard ends the process.
func reserve(timeout time.Duration) time.Duration {
	const share, most = 10, 5 * time.Second
	return min(timeout/share, most)
}

func (m *Manager) newRecord(c change, o Options, committed *document.State) (*Record, error) {
	known, err := m.devices()
	if err != nil {
		return nil, err
	}
	committed = known.without(merged(committed, c), c)
	now, pid := time.Now(), os.Getpid()
	started, err := startOf(pid)
	if err != nil {
		return nil, err
	}
	r := &Record{
		ID: rand.Text(), Boot: m.boot, PID: pid, Started: started, Begun: now, Uptime: uptime(), Deadline: now.Add(o.Timeout),
		Before: c.before, Committed: committed, Devices: known.after(committed, c),
	}
	for _, i := range c.target.Interfaces {
		r.Touched = append(r.Touched, i.Name)
	}
	return r, nil
}

// begin writes the transaction down and starts its guard, which is written down too before
// anything is changed.
func (m *Manager) begin(r *Record) error {
	if err := m.dir.putRecord(r); err != nil {
		return err
	}
	pid, err := m.StartGuard(r.ID)
	if err == nil {
		r.Guard = pid
		r.GuardStarted, err = startOf(pid)
	}
	if err == nil && r.GuardStarted == 0 {
		err = errors.New("it ended at once")
	}
	if err == nil {
		return m.dir.putRecord(r)
	}
	return errors.Join(fmt.Errorf("start the process that rolls back at the deadline: %w", err), m.dir.removeRecord())
}

// reach carries out the steps, and what remains of them after each look at the host, until
// nothing does. What ask asks has to answer then.
func (m *Manager) reach(
	ctx context.Context,
	r *Record,
	c change,
	o Options,
	ask func(context.Context, *document.State) error,
) error {
	again := time.NewTicker(m.Interval)
	defer again.Stop()
	steps, seen := c.steps, unreached{}
	for try := 1; ; try++ {
		err := m.carryOut(ctx, steps)
		var now *document.State
		if err == nil {
			now, err = m.Host.Show(ctx)
		}
		if err == nil && o.NoVerify {
			m.noteSurvivors(ctx, r)
			return ask(ctx, now)
		}
		if err == nil {
			if steps = plan.Between(now, c.target); len(steps) == 0 {
				m.noteSurvivors(ctx, r)
				return m.settle(ctx, c, o, now, ask)
			}
			seen.note(now, steps)
			err = seen
		}
		if try >= m.Tries {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-again.C:
		}
	}
}

// settle waits for addresses that come automatically, and asks what has to answer then: a lease
// may bring the default route.
func (m *Manager) settle(
	ctx context.Context,
	c change,
	o Options,
	now *document.State,
	ask func(context.Context, *document.State) error,
) (err error) {
	if o.NoWait {
		return ask(ctx, now)
	}
	if err = m.Ready(ctx, c.declared()); err == nil {
		now, err = m.Host.Show(ctx)
	}
	if err != nil {
		return err
	}
	return ask(ctx, now)
}

// noteSurvivors keeps which routes of programs, and which addresses, the change did not remove:
// an undo adds none of them again that somebody withdraws meanwhile. Without this note an undo
// adds them all.
func (m *Manager) noteSurvivors(ctx context.Context, r *Record) {
	if len(r.Image.ProgramRoutes())+len(r.Image.Addresses) == 0 {
		return
	}
	now, err := m.Host.Image(ctx, snapshot.Area{})
	if err == nil {
		r.Image.NoteSurvivors(now)
		err = m.dir.putRecord(r)
	}
	if err != nil {
		m.logf("note what the change did not remove: %v", err)
	}
}

func (m *Manager) carryOut(ctx context.Context, steps []plan.Step) error {
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("before %q: %w", step, err)
		}
		m.logf("%s", step)
		if err := m.Host.Do(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// shownSteps bounds how many steps a message has.
const shownSteps = 5

func words[T fmt.Stringer](steps []T) string {
	var list []string
	for i, step := range steps {
		if i == shownSteps {
			list = append(list, fmt.Sprintf("and %d more steps", len(steps)-i))
			break
		}
		list = append(list, step.String())
	}
	return strings.Join(list, "; ")
}
