// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"slices"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netns"
)

// Reconcile removes attachments for which no DEL will come: unfinished ones of an earlier
// daemon, and those whose network namespace has ended. It skips attachments that a call
// is processing. It also writes the journal again if that had failed. The error joins all
// failures; the other attachments are processed.
func (m *Manager) Reconcile(ctx context.Context) error {
	errs := []error{m.cfg.Journal.Repair()}
	for _, rec := range m.cfg.Journal.Records() {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		errs = append(errs, m.reconcile(ctx, rec.RequestKey()))
	}
	return errors.Join(errs...)
}

// GC removes the requests of one network that are not among valid, if their network
// namespace is gone too. The list alone is not enough: a caller that lost its state, or a
// second one on the node, would disconnect running pods. An attachment that is alive and
// not listed is logged.
func (m *Manager) GC(ctx context.Context, network string, valid map[journal.Key]bool) error {
	var errs []error
	for _, rec := range m.cfg.Journal.Records() {
		if valid[rec.RequestKey()] || rec.CNINetwork != network {
			continue
		}
		errs = append(errs, m.reconcile(ctx, rec.RequestKey()))
		if _, err := m.cfg.Journal.Get(rec.Key); err == nil {
			m.logOf(rec).Warn("runtime does not list an attachment that is alive; keeping it")
		}
	}
	return errors.Join(errs...)
}

func (m *Manager) reconcile(ctx context.Context, request journal.Key) error {
	unlock, free := m.locks.Try(request.ContainerID)
	if !free {
		return nil
	}
	defer unlock()
	records := m.ofRequest(request) // again, because they can't change under the lock
	dead := slices.IndexFunc(records, func(rec journal.Record) bool { return m.dead(ctx, rec) })
	if dead < 0 {
		return nil
	}
	return m.removeAll(ctx, records)
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
	if _, err = driver.Check(ctx, specOf(rec)); !errors.Is(err, attach.ErrGone) {
		return false
	}
	m.logOf(rec).Info("removing an attachment without a DEL", "reason", "its network namespace is gone")
	return true
}
