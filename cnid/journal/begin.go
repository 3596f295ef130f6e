// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
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

// BeginAll does what Begin does for all records of a pod, or for none, with one flush of
// the disk.
func (j *Journal) BeginAll(recs []Record) ([]Record, error) {
	begun, written, err := j.begin(recs)
	if err != nil {
		return nil, errors.Join(err, j.undo(begun))
	}
	// Outside of the lock, so that many attachments share one flush.
	if err := j.disk.flush(written); err != nil {
		return nil, errors.Join(fmt.Errorf("begin %d attachments: %w", len(begun), err), j.drop(begun))
	}
	return begun, nil
}

// begin does all of BeginAll but the flush, and returns the number of the last change to
// flush. With an error it returns the records that it has written.
func (j *Journal) begin(recs []Record) (begun []Record, written uint64, err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	for _, rec := range recs {
		rec, written, err = j.beginOne(rec)
		if err != nil {
			return begun, 0, fmt.Errorf("begin attachment %s: %w", rec.Key, err)
		}
		begun = append(begun, rec)
	}
	return begun, written, nil
}

// beginOne is called with writing held, as the next two are.
func (j *Journal) beginOne(rec Record) (Record, uint64, error) {
	if _, err := j.Get(rec.Key); err == nil {
		return rec, 0, ErrExists
	}
	if err := j.deviceFree(rec); err != nil {
		return rec, 0, err
	}
	next := j.content.counters
	if err := j.chooseShadows(&rec, &next); err != nil {
		return rec, 0, err
	}
	j.number(&rec, &next)
	rec.Phase, rec.Device = PhaseIntended, Device{}
	written, err := j.write(change{Put: &rec, Counters: &next})
	if err != nil {
		return rec, 0, err
	}
	j.apply(func(c *content) { c.records[rec.Key], c.counters = rec, next })
	return rec, written, nil
}

// deviceFree returns an error that names the holder of a record's device.
func (j *Journal) deviceFree(rec Record) error {
	if rec.PCI == "" {
		return nil
	}
	for _, other := range j.Records() {
		if other.PCI == rec.PCI {
			return fmt.Errorf("%w: interface %s of pod %s has %s; its sandbox %s has to end first", ErrDeviceHeld, other.IfName, other.Pod, rec.PCI, other.ContainerID)
		}
	}
	return nil
}

// undo removes records without side effects, because others of their pod could not be
// begun. The next change repeats what the disk can't take now.
func (j *Journal) undo(recs []Record) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	var failures []error
	for _, rec := range recs {
		j.apply(func(c *content) { delete(c.records, rec.Key) })
		_, err := j.write(change{Drop: &rec.Key})
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// drop removes records without side effects, because their file could not be flushed
// and may lose them.
func (j *Journal) drop(recs []Record) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	for _, rec := range recs {
		j.apply(func(c *content) { delete(c.records, rec.Key) })
	}
	if j.disk.file != nil {
		if err := j.disk.discard(); err != nil {
			return err
		}
	}
	return j.note(j.renew())
}
