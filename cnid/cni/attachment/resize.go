// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"fmt"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// Resize gives a finished attachment another MTU, in bytes: the pod's end first,
// then the record, after which the datapath's pass changes the host end. It reports
// whether it did. It skips an attachment that a call is processing, one that is gone, and
// one of a driver that does not follow the MTU.
func (m *Manager) Resize(ctx context.Context, key journal.Key, mtu int) (bool, error) {
	unlock, free := m.locks.Try(key.ContainerID)
	if !free {
		return false, nil
	}
	defer unlock()
	rec, driver, ok, err := m.finished(key)
	if err != nil || !ok || rec.MTU == mtu || !driver.Capabilities().FollowsMTU {
		return false, err
	}
	spec := specOf(rec)
	spec.MTU = mtu
	if err := driver.Resize(ctx, spec); err != nil {
		return false, fmt.Errorf("give pod %s the MTU of the node's network: %w", rec.Pod, err)
	}
	if rec, err = m.cfg.Journal.Resize(key, mtu); err != nil {
		return false, err
	}
	return true, m.program(ctx, rec)
}
