// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"errors"
	"time"
)

// guardInterval is how often a guard looks whether its transaction is still open, and
// whether the process that applies it still runs.
const guardInterval = 250 * time.Millisecond

// Guard waits until a transaction has ended, or rolls it back: at its deadline, or as
// soon as the process that applies it has ended. The process of Safeguards.StartGuard runs it.
func (m *Manager) Guard(ctx context.Context, id string) error {
	r, err := m.dir.record()
	if err != nil || r == nil || r.ID != id {
		return err
	}
	// A timer is not moved by changes of the wall clock.
	deadline := time.NewTimer(time.Until(r.Deadline))
	defer deadline.Stop()
	again := time.NewTicker(guardInterval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return m.expire(ctx, id)
		case <-again.C:
		}
		switch r, err := m.dir.record(); {
		case err == nil && (r == nil || r.ID != id):
			return nil
		case err == nil && !r.Waiting && !alive(r.PID, r.Started):
			return m.expire(ctx, id)
		}
	}
}

// expire rolls a transaction back. A process that is still at it hangs, and is ended: it
// has the lock.
func (m *Manager) expire(ctx context.Context, id string) error {
	r, err := m.dir.record()
	if err != nil || r == nil || r.ID != id {
		return err
	}
	if !r.Waiting {
		if err := kill(r.PID, r.Started); err != nil {
			return err
		}
	}
	m.logf("transaction %s was not committed by %s: restoring the state before", r.ID, r.Deadline.Format(time.RFC3339))
	for round := 1; ; round++ {
		err := m.expired(ctx, id, round == rounds)
		if round == rounds || !errors.Is(err, ErrNotRestored) || ctx.Err() != nil {
			return err
		}
		m.logf("%v", err)
	}
}

// rounds bounds how often a guard tries to restore the state before: some minutes.
const rounds = 60

// expired restores the state before once, and gives the lock back. The last time it gives up.
func (m *Manager) expired(ctx context.Context, id string, last bool) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r, err := m.dir.record()
	if err != nil || r == nil || r.ID != id {
		return err
	}
	if r.Done {
		return m.commit(r)
	}
	if err = m.restore(ctx, r); last && errors.Is(err, ErrNotRestored) {
		return m.giveUp(err)
	}
	return err
}
