// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// Restore creates the interface of an attachment again if it was deleted although the
// sandbox lives, and reports whether it did. It skips all other attachments, and those
// that a call is processing. The pod keeps its addresses and its MAC; packets in flight
// are lost. An interface that was moved is an ifdriver.ErrExists.
func (m *Manager) Restore(ctx context.Context, key journal.Key) (bool, error) {
	unlock, free := m.locks.Try(key.ContainerID)
	if !free {
		return false, nil
	}
	defer unlock()
	rec, driver, ok, err := m.finished(key)
	if err != nil || !ok || !driver.Capabilities().Restorable || !robbed(ctx, driver, rec) {
		return false, err
	}
	if err := m.reattach(ctx, driver, rec); err != nil {
		return true, fmt.Errorf("make interface %s of pod %s anew: %w", rec.IfName, rec.Pod, err)
	}
	m.logOf(rec).Warn("restored a pod's interface that another program had deleted")
	return true, nil
}

// robbed reports whether the attached sandbox lives, without its interface.
func robbed(ctx context.Context, driver ifdriver.Driver, rec journal.Record) bool {
	id, err := netns.Identify(rec.NetnsPath)
	if err != nil || id.Cookie != rec.Device.NetnsCookie || id.Inode != rec.Device.NetnsInode {
		return false
	}
	_, err = driver.Check(ctx, specOf(rec))
	return errors.Is(err, ifdriver.ErrGone)
}

func (m *Manager) reattach(ctx context.Context, driver ifdriver.Driver, rec journal.Record) error {
	spec, err := m.spec(ctx, rec)
	if err != nil {
		return err
	}
	link, err := driver.Attach(ctx, spec)
	if err != nil {
		return err
	}
	// The record has the index of the device. With an outdated one the new device
	// would not be programmed, and never be removed.
	done, err := m.cfg.Journal.Complete(rec.Key, device(link))
	if err != nil {
		return errors.Join(err, driver.Detach(ctx, rec.ContainerID, rec.IfName))
	}
	return m.program(ctx, done)
}
