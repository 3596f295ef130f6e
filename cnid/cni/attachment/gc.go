// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// Reconcile removes attachments that no DEL will come for: unfinished attachments of an earlier
// daemon, and attachments whose network namespace has ended. It skips attachments that a call is
// processing. It also writes the journal again if an earlier write had failed. The error joins
// all failures; the other attachments are processed.
func (m *Manager) Reconcile(ctx context.Context) error {
	err := m.cfg.Journal.Repair()
	var requests []journal.Key
	for _, rec := range m.cfg.Journal.Records() {
		requests = append(requests, rec.RequestKey())
	}
	return errors.Join(err, m.reconcileAll(ctx, requests))
}

// removals is how many dead requests are removed at the same time. One may take as long as
// CNI plugins that hang.
const removals = 64

// reconcileAll removes requests that are dead, side by side.
func (m *Manager) reconcileAll(ctx context.Context, requests []journal.Key) error {
	var mu sync.Mutex
	var errs []error
	failed := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	}
	var group errgroup.Group
	group.SetLimit(removals)
	seen := map[journal.Key]bool{}
	for _, request := range requests {
		if ctx.Err() != nil {
			failed(ctx.Err())
			break
		}
		if seen[request] {
			continue
		}
		seen[request] = true
		if remove := m.reconcile(ctx, request); remove != nil {
			group.Go(func() error { failed(remove()); return nil })
		}
	}
	_ = group.Wait() // no function returns an error
	return errors.Join(errs...)
}

// GC removes the requests of one network that are not among valid, if their network
// namespace is gone too. The list alone is not enough: a caller that lost its state, or a
// second one on the node, would disconnect running pods. An attachment that is alive and
// not listed is logged.
func (m *Manager) GC(ctx context.Context, network string, valid map[journal.Key]bool) error {
	unlisted := slices.DeleteFunc(slices.Clone(m.cfg.Journal.Records()), func(rec journal.Record) bool {
		return valid[rec.RequestKey()] || rec.CNINetwork != network
	})
	var requests []journal.Key
	for _, rec := range unlisted {
		requests = append(requests, rec.RequestKey())
	}
	err := m.reconcileAll(ctx, requests)
	for _, rec := range unlisted {
		if _, err := m.cfg.Journal.Get(rec.Key); err == nil {
			m.logOf(rec).Warn("runtime does not list an attachment that is alive; keeping it")
		}
	}
	return err
}

// reconcile returns a function that removes a dead request, for the caller to call. It is nil for
// a living request, and for a request that a call is processing.
func (m *Manager) reconcile(ctx context.Context, request journal.Key) (remove func() error) {
	unlock, free := m.locks.Try(request.ContainerID)
	if !free {
		return nil
	}
	records := m.ofRequest(request) // again, because they can't change under the lock
	if !slices.ContainsFunc(records, func(rec journal.Record) bool { return m.dead(ctx, rec) }) {
		unlock()
		return nil
	}
	return func() error {
		defer unlock()
		return m.removeAll(ctx, records)
	}
}

// dead reports whether an attachment has to be removed with its request. If this is not
// certain it stays: a path without a namespace may also mean that this daemon does not
// see the runtime's mounts, and running pods must keep their network. A namespace that
// has ended has deleted the device too.
func (m *Manager) dead(ctx context.Context, rec journal.Record) bool {
	log := m.logOf(rec)
	if rec.Phase != journal.PhaseDone {
		log.Info("removing an attachment without a DEL", "reason", "it was left in phase "+string(rec.Phase))
		return true
	}
	if rec.NetnsPath == "" {
		return m.gone(ctx, rec)
	}
	id, err := netns.Identify(rec.NetnsPath)
	if err == nil && id.Cookie == rec.Device.NetnsCookie && id.Inode == rec.Device.NetnsInode {
		return false
	}
	if m.gone(ctx, rec) {
		return true
	}
	log.Warn("an attachment's network namespace is not at its path but still has its device; leaving it alone",
		"path", rec.NetnsPath, "error", err)
	return false
}

// gone reports whether the driver of an attachment is certain that its sandbox has ended.
func (m *Manager) gone(ctx context.Context, rec journal.Record) bool {
	driver, err := m.cfg.Drivers.Of(rec.Kind)
	if err != nil {
		return false
	}
	if _, err = driver.Check(ctx, specOf(rec)); !errors.Is(err, ifdriver.ErrGone) {
		return false
	}
	m.logOf(rec).Info("removing an attachment without a DEL", "reason", "its network namespace is gone")
	return true
}
