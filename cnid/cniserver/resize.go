// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/cnid/journal"
)

// Resize gives a finished attachment another MTU, in bytes: the pod's end first,
// then the record, after which the datapath's pass gives it to the host end. It
// reports whether it did: an attachment that a command is at work on, and one that
// has left, it leaves alone.
func (s *Server) Resize(ctx context.Context, key journal.Key, mtu int) (bool, error) {
	unlock, free := s.locks.try(key.ContainerID)
	if !free {
		return false, nil
	}
	defer unlock()
	rec, err := s.cfg.Journal.Get(key)
	if errors.Is(err, journal.ErrNotFound) {
		return false, nil
	}
	if err != nil || rec.Phase != journal.PhaseDone || rec.MTU == mtu {
		return false, err
	}
	driver, err := s.cfg.Drivers.Of(rec.Kind)
	if err != nil {
		return false, err
	}
	spec := specOf(rec)
	spec.MTU = mtu
	if err := driver.Resize(ctx, spec); err != nil {
		return false, fmt.Errorf("give pod %s the MTU of the node's network: %w", rec.Pod, err)
	}
	if rec, err = s.cfg.Journal.Resize(key, mtu); err != nil {
		return false, err
	}
	return true, s.program(ctx, rec)
}
