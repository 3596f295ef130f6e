// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// Remove removes the attachments of a request of Alioth's own plugin. It needs neither the pod
// nor its namespace nor the API server. Missing attachments are not an error, and attachments of
// another plugin count as missing.
func (m *Manager) Remove(ctx context.Context, key journal.Key) error {
	return m.removeRequest(ctx, key, false)
}

// RemoveExternal does the same as Remove for another CNI plugin (Request.External). The plugin may
// name any container: the attachments of Alioth's own plugin count as missing.
func (m *Manager) RemoveExternal(ctx context.Context, key journal.Key) error {
	return m.removeRequest(ctx, key, true)
}

func (m *Manager) removeRequest(ctx context.Context, key journal.Key, external bool) error {
	unlock, err := m.lock(ctx, key.ContainerID)
	if err != nil {
		return err
	}
	defer unlock()
	records := m.ofRequest(key)
	switch {
	case len(records) == 0:
		return errors.Join(m.removeUnknown(ctx, key, external), m.removeUnrecorded(ctx, key, external, nil))
	case m.capabilities(records[0].Kind).External != external:
		return nil
	case external:
		return m.removeAll(ctx, records) // its notes outlive the journal, and are adopted at once
	}
	return errors.Join(m.removeAll(ctx, records), m.removeUnrecorded(ctx, key, external, records))
}

// removeUnrecorded removes further interfaces of a request that drivers know and the journal
// does not, because it was lost and they could not be adopted. Those with an end on the
// node go with the pod's namespace; others may have more than that, such as the lease of
// a CNI plugin.
func (m *Manager) removeUnrecorded(
	ctx context.Context,
	key journal.Key,
	external bool,
	records []journal.Record,
) error {
	var errs []error
	for _, driver := range m.cfg.Drivers {
		if can := driver.Capabilities(); can.HostEnd || can.External != external {
			continue
		}
		found, err := driver.List(ctx)
		errs = append(errs, err)
		for _, one := range found {
			recorded := slices.ContainsFunc(records, func(rec journal.Record) bool { return rec.IfName == one.IfName })
			if one.ContainerID == key.ContainerID && one.Request == key.IfName && !recorded {
				errs = append(errs, driver.Detach(ctx, one.ContainerID, one.IfName))
			}
		}
	}
	return errors.Join(errs...)
}

// removeUnknown removes the devices of an attachment without a record, which may be from
// before the loss of the journal.
func (m *Manager) removeUnknown(ctx context.Context, key journal.Key, external bool) error {
	var errs []error
	for _, driver := range m.cfg.Drivers {
		if driver.Capabilities().External == external {
			errs = append(errs, driver.Detach(ctx, key.ContainerID, key.IfName))
		}
	}
	return errors.Join(errs...)
}

// removeAll removes attachments in parallel. A failure of one does not end the others. The caller
// holds their lock.
func (m *Manager) removeAll(ctx context.Context, records []journal.Record) error {
	errs := make([]error, len(records))
	atOnce(len(records), func(i int) { errs[i] = m.remove(ctx, records[i]) })
	return failure(errs)
}

// remove undoes an attachment from whatever phase it is in. The caller holds
// its lock. It continues when ctx ends, to leave no half removed attachment.
//
// It fails only if a device can't be removed. The datapath repairs itself from the
// journal's records. A journal that can't be written has records of removed attachments,
// which the next start removes.
func (m *Manager) remove(ctx context.Context, rec journal.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.UndoWait)
	defer cancel()
	log := m.logOf(rec)
	driver, err := m.cfg.Drivers.Of(rec.Kind)
	if err != nil {
		return err
	}
	rec, err = m.cfg.Journal.Get(rec.Key) // with its present phase
	if err != nil {
		return err
	}
	leaving, err := m.cfg.Journal.Leave(rec.Key)
	if err != nil {
		log.Error("cannot write the journal; going on", "error", err)
	}
	// An attachment that was never done was never programmed either.
	if rec.Phase != journal.PhaseIntended {
		if err := m.unprogram(ctx, leaving); err != nil {
			log.Error("cannot unprogram the datapath; going on", "error", err)
		}
	}
	if err := driver.Detach(ctx, rec.ContainerID, rec.IfName); err != nil {
		return fmt.Errorf("detach %s of pod %s: %w", rec.IfName, rec.Pod, err)
	}
	if err := m.cfg.Journal.Retire(rec.Key); err != nil {
		log.Error("cannot write the journal; going on", "error", err)
	}
	m.cfg.Releaser.Release(leaving)
	return nil
}

// unprogram leaves half of the remaining time to detaching.
func (m *Manager) unprogram(ctx context.Context, rec journal.Record) error {
	switch can := m.capabilities(rec.Kind); {
	case can.External:
		return nil
	case !can.Datapath():
		m.cfg.Datapath.UnprogramSockets()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.UndoWait/2)
	defer cancel()
	return m.cfg.Datapath.Unprogram(ctx, rec)
}
