// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"slices"
)

// Begin stores rec with phase PhaseIntended, and returns it with shadow
// addresses, sequence number and time filled in. It is on disk, to survive a
// power failure too, when Begin returns. A record of the same key is an
// ErrExists, one with the same device an ErrDeviceHeld.
func (j *Journal) Begin(rec Record) (Record, error) {
	begun, err := j.BeginAll([]Record{rec})
	if err != nil {
		return Record{}, err
	}
	return begun[0], nil
}

// BeginAll calls Begin for all records of a pod, at least one, or for none, with one flush of the
// disk.
func (j *Journal) BeginAll(recs []Record) ([]Record, error) {
	begun, written, err := j.begin(recs)
	if err != nil {
		return nil, err
	}
	// Outside of the lock, so that many attachments share one flush.
	if err := j.disk.flush(written); err != nil {
		return nil, errors.Join(fmt.Errorf("begin the attachments of %s: %w", recs[0].Pod, err), j.drop(begun))
	}
	return begun, nil
}

// begin does all of BeginAll but the flush, and returns the number of the last change to
// flush.
func (j *Journal) begin(recs []Record) (begun []Record, written uint64, err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	next := j.content.counters
	var changes []change
	for _, rec := range recs {
		if err := j.admit(&rec, &next, begun); err != nil {
			return nil, 0, fmt.Errorf("begin attachment %s: %w", rec.Key, err)
		}
		begun, changes = append(begun, rec), append(changes, change{Put: &rec, Counters: &next})
	}
	if written, err = j.write(changes...); err != nil {
		return nil, 0, fmt.Errorf("begin the attachments of %s: %w", recs[0].Pod, err)
	}
	j.apply(func(c *content) {
		for _, rec := range begun {
			c.put(rec)
		}
		c.counters = next
	})
	return begun, written, nil
}

// admit fills in a record that is begun beside the journal's and others, or returns why it
// can't be. Most records of other CNI plugins need no look at all of them.
func (j *Journal) admit(rec *Record, next *counters, begun []Record) error {
	_, err := j.Get(rec.Key)
	if err == nil || slices.ContainsFunc(begun, func(other Record) bool { return other.Key == rec.Key }) {
		return ErrExists
	}
	if rec.PCI != "" || len(shadowed(*rec)) > 0 {
		others := slices.Concat(j.Records(), begun)
		if err := deviceFree(*rec, others); err != nil {
			return err
		}
		if err := j.chooseShadows(rec, next, others); err != nil {
			return err
		}
	}
	j.number(rec, next)
	rec.Phase, rec.Device = PhaseIntended, Device{}
	return nil
}

// deviceFree returns an error that names the other record with a record's device.
func deviceFree(rec Record, others []Record) error {
	if rec.PCI == "" {
		return nil
	}
	for _, other := range others {
		if other.PCI == rec.PCI {
			return fmt.Errorf(
				"%w: interface %s of pod %s has %s; its sandbox %s has to end first",
				ErrDeviceHeld,
				other.IfName,
				other.Pod,
				rec.PCI,
				other.ContainerID,
			)
		}
	}
	return nil
}

// drop removes records without side effects, because their file could not be flushed
// and may lose them.
func (j *Journal) drop(recs []Record) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	for _, rec := range recs {
		j.apply(func(c *content) { c.remove(rec.Key) })
	}
	if j.disk.file != nil {
		if err := j.disk.discard(); err != nil {
			return err
		}
	}
	return j.note(j.renew())
}
