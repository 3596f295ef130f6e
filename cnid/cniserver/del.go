// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netns"
)

// del removes an attachment. It needs neither the pod nor its namespace nor
// the API server, and what isn't there is removed already.
func (s *Server) del(ctx context.Context, c command) error {
	unlock, err := s.lock(ctx, c.key.ContainerID)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := s.cfg.Journal.Get(c.key)
	if errors.Is(err, journal.ErrNotFound) {
		return s.removeUnknown(ctx, c.key)
	}
	if err != nil {
		return err
	}
	return s.remove(ctx, rec)
}

// removeUnknown removes the devices of an attachment that the journal doesn't
// know, which may be from before the journal was lost.
func (s *Server) removeUnknown(ctx context.Context, key journal.Key) error {
	var errs []error
	for _, driver := range s.cfg.Drivers {
		errs = append(errs, driver.Detach(ctx, key.ContainerID, key.IfName))
	}
	return errors.Join(errs...)
}

// remove undoes an attachment from whatever phase it is in. The caller holds
// its lock. It goes on when ctx ends: half a removal helps nobody.
//
// Only a device that can't be removed fails it. The datapath repairs itself
// from the journal's records, and a journal that can't be written knows more
// than there is, which the next start finds out.
func (s *Server) remove(ctx context.Context, rec journal.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.UndoWait)
	defer cancel()
	log := s.cfg.Log.With("pod", rec.Pod.String(), "containerID", rec.ContainerID, "ifName", rec.IfName)
	driver, err := s.cfg.Drivers.Of(rec.Kind)
	if err != nil {
		return err
	}
	rec, err = s.cfg.Journal.Get(rec.Key) // as far as it came since
	if err != nil {
		return err
	}
	leaving, err := s.cfg.Journal.Leave(rec.Key)
	if err != nil {
		log.Error("cannot write the journal; going on", "error", err)
	}
	// An attachment that was never done was never programmed either.
	if rec.Phase != journal.PhaseIntended {
		if err := s.unprogram(ctx, leaving); err != nil {
			log.Error("cannot unprogram the datapath; going on", "error", err)
		}
	}
	if err := driver.Detach(ctx, rec.ContainerID, rec.IfName); err != nil {
		return fmt.Errorf("detach %s of pod %s: %w", rec.IfName, rec.Pod, err)
	}
	if err := s.cfg.Journal.Retire(rec.Key); err != nil {
		log.Error("cannot write the journal; going on", "error", err)
	}
	s.cfg.Releaser.Release(leaving)
	return nil
}

// unprogram leaves half of what time there is to the detaching.
func (s *Server) unprogram(ctx context.Context, rec journal.Record) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.UndoWait/2)
	defer cancel()
	return s.cfg.Datapath.Unprogram(ctx, rec)
}

// Reconcile removes what nobody will send a DEL for: attachments that an
// earlier daemon left halfway, and those whose network namespace has ended.
// Attachments that a command is at work on are left to it. It also writes the
// journal anew if that could not be written. The error joins what failed; the
// rest is done.
func (s *Server) Reconcile(ctx context.Context) error {
	errs := []error{s.cfg.Journal.Repair()}
	for _, rec := range s.cfg.Journal.Records() {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		errs = append(errs, s.reconcile(ctx, rec.Key))
	}
	return errors.Join(errs...)
}

func (s *Server) reconcile(ctx context.Context, key journal.Key) error {
	unlock, free := s.locks.try(key.ContainerID)
	if !free {
		return nil
	}
	defer unlock()
	rec, err := s.cfg.Journal.Get(key) // as it is now that nobody changes it
	if errors.Is(err, journal.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	why := s.dead(ctx, rec)
	if why == "" {
		return nil
	}
	s.cfg.Log.Info("removing an attachment without a DEL", "pod", rec.Pod.String(), "containerID", rec.ContainerID,
		"ifName", rec.IfName, "reason", why)
	return s.remove(ctx, rec)
}

// dead says why an attachment has to go, or "". When in doubt it stays: a path
// without a namespace may also mean that this daemon doesn't see the runtime's
// mounts, which must not cost running pods their network. A namespace that has
// really ended has taken the device with it.
func (s *Server) dead(ctx context.Context, rec journal.Record) string {
	if rec.Phase != journal.PhaseDone {
		return "it was left in phase " + string(rec.Phase)
	}
	id, err := netns.Identify(rec.NetnsPath)
	if err == nil && id.Cookie == rec.Device.NetnsCookie && id.Inode == rec.Device.NetnsInode {
		return ""
	}
	driver, unknown := s.cfg.Drivers.Of(rec.Kind)
	if unknown != nil {
		return ""
	}
	if _, gone := driver.Check(ctx, specOf(rec)); errors.Is(gone, attach.ErrGone) {
		return "its network namespace is gone"
	}
	s.cfg.Log.Warn("an attachment's network namespace is not at its path but still has its device; leaving it alone",
		"pod", rec.Pod.String(), "containerID", rec.ContainerID, "path", rec.NetnsPath, "error", err)
	return ""
}
