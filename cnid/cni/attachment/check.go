// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"fmt"
	"strings"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// Check compares the attachments of a request with the journal, the kernel and the
// API, and returns their records. A request without attachments is a
// journal.ErrNotFound.
func (m *Manager) Check(ctx context.Context, key journal.Key, pod journal.Pod) ([]journal.Record, error) {
	unlock, err := m.lock(ctx, key.ContainerID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	records := m.ofRequest(key)
	if len(records) == 0 {
		return nil, fmt.Errorf("attachment %s: %w", key, journal.ErrNotFound)
	}
	for _, rec := range records {
		if !rec.AskedFor(pod) {
			return nil, fmt.Errorf(
				"attachment %s belongs to pod %s (UID %s), not %s (UID %s)",
				rec.Key,
				rec.Pod,
				strings.Join(rec.UIDs(), " or "),
				pod,
				pod.UID,
			)
		}
		if err := m.check(ctx, rec); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func (m *Manager) check(ctx context.Context, rec journal.Record) error {
	if _, err := m.intact(ctx, rec); err != nil {
		return err
	}
	if err := m.cfg.Decisions.Check(rec); err != nil || !m.capabilities(rec.Kind).Datapath() {
		return err
	}
	return m.cfg.Datapath.Check(rec)
}

// intact compares an attachment with the kernel.
func (m *Manager) intact(ctx context.Context, rec journal.Record) (ifdriver.Link, error) {
	if rec.Phase != journal.PhaseDone {
		return ifdriver.Link{}, fmt.Errorf("it came no further than phase %q", rec.Phase)
	}
	driver, err := m.cfg.Drivers.Of(rec.Kind)
	if err != nil {
		return ifdriver.Link{}, err
	}
	spec, err := m.spec(ctx, rec)
	if err != nil {
		return ifdriver.Link{}, err
	}
	link, err := driver.Check(ctx, spec)
	if err != nil {
		return ifdriver.Link{}, err
	}
	if !rec.Device.Same(device(link)) {
		return ifdriver.Link{}, fmt.Errorf("%w: it is %+v, was made as %+v", ifdriver.ErrMismatch, device(link), rec.Device)
	}
	return link, nil
}

// Inspect compares the interface of every finished attachment with the journal,
// as Check does, and returns the errors by attachment. It changes nothing, and does not
// wait for running calls.
func (m *Manager) Inspect(ctx context.Context) map[journal.Key]error {
	broken := map[journal.Key]error{}
	for _, rec := range m.cfg.Journal.Records() {
		if rec.Phase != journal.PhaseDone {
			continue
		}
		if _, err := m.intact(ctx, rec); err != nil {
			broken[rec.Key] = err
		}
	}
	return broken
}
