// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/netns"
)

// Restore makes the interface of an attachment anew when the node has nothing
// of it any more although its sandbox lives: somebody deleted it. It reports
// whether that was so. Everything else, what a call is at work on included,
// it leaves alone. The pod keeps its addresses and its MAC; what was in flight
// is lost. An interface that is somewhere else now is an attach.ErrExists.
func (m *Manager) Restore(ctx context.Context, key journal.Key) (bool, error) {
	unlock, free := m.locks.try(key.ContainerID)
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

// robbed reports whether the sandbox that was attached lives, without interface.
func robbed(ctx context.Context, driver attach.Driver, rec journal.Record) bool {
	id, err := netns.Identify(rec.NetnsPath)
	if err != nil || id.Cookie != rec.Device.NetnsCookie || id.Inode != rec.Device.NetnsInode {
		return false
	}
	_, err = driver.Check(ctx, specOf(rec))
	return errors.Is(err, attach.ErrGone)
}

func (m *Manager) reattach(ctx context.Context, driver attach.Driver, rec journal.Record) error {
	link, err := driver.Attach(ctx, specOf(rec))
	if err != nil {
		return err
	}
	// The record says where the device is. One that says something else would
	// leave the new device unprogrammed, and for nobody to remove.
	done, err := m.cfg.Journal.Complete(rec.Key, device(link))
	if err != nil {
		return errors.Join(err, driver.Detach(ctx, rec.ContainerID, rec.IfName))
	}
	return m.program(ctx, done)
}
