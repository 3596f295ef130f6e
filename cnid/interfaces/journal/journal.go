// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Errors that callers match.
var (
	// ErrNotFound: the journal has no such record.
	ErrNotFound = errors.New("not in the journal")
	// ErrExists: the journal has a record for that container and interface.
	ErrExists = errors.New("already in the journal")
	// ErrDeviceHeld: another record has the device.
	ErrDeviceHeld = errors.New("the device is in use")
	// ErrShadowsExhausted: every address of a shadow range is in use.
	ErrShadowsExhausted = errors.New("no shadow address is free: configure a larger shadow range")
	// ErrNewerFormat: the file was written by a later release.
	ErrNewerFormat = errors.New("journal was written by a newer release")
)

// Config has the place of a Journal and the range of its shadow addresses.
type Config struct {
	// Path of the file. Its directory must exist.
	Path string
	// Shadow4 and Shadow6 are the ranges of shadow addresses. The zero value
	// means that attachments get none of that family.
	Shadow4, Shadow6 netip.Prefix
	// Format is the format of the node's state; nil for a journal without others beside it.
	Format Format
	// Clock is the system's clock when nil.
	Clock Clock
	Log   *slog.Logger
}

// Format checks and notes the format of the node's state, with the lock of the journal.
type Format interface {
	// Check is called before the file is read; its error ends Open.
	Check() error
	// Note is called each time before the file is written as a whole, so before the first
	// change of this process; its error counts as one of the file.
	Note() error
}

// Clock tells the time.
type Clock interface{ Now() time.Time }

// wall is the clock of the system.
type wall struct{}

// Now implements Clock.
func (wall) Now() time.Time { return time.Now() }

// Journal has the attachments of the node. Its methods may be called from any
// goroutine.
type Journal struct {
	cfg  Config
	disk *disk

	// writing serialises changes, so that the content on which a change depends is
	// the same when the change is on disk. mu guards content only while memory is
	// accessed, so that readers don't wait for the disk.
	writing sync.Mutex
	mu      sync.RWMutex
	content content
	// sorted is the result of Records; nil when it has to be built again.
	sorted []Record
	// failure says why the file could not be written, since failing; nil when it could.
	failure error
	failing time.Time
}

// content is everything that the file holds.
type content struct {
	records map[Key]Record
	// ofContainer are the keys of the records of each container, ofPod the keys of each UID of a
	// pod.
	ofContainer, ofPod index
	releases           map[uint64]Record
	counters           counters
}

func newContent() content {
	return content{records: map[Key]Record{}, ofContainer: index{}, ofPod: index{}, releases: map[uint64]Record{}}
}

// put inserts or replaces a record.
func (c *content) put(rec Record) {
	c.remove(rec.Key)
	c.ofContainer.add(rec.ContainerID, rec.Key)
	c.ofPod.add(rec.Pod.UID, rec.Key)
	c.records[rec.Key] = rec
}

// remove removes a record, if there is one.
func (c *content) remove(key Key) {
	rec, ok := c.records[key]
	if !ok {
		return
	}
	delete(c.records, key)
	c.ofContainer.remove(rec.ContainerID, key)
	c.ofPod.remove(rec.Pod.UID, key)
}

// of returns the records with these keys, the oldest first.
func (c *content) of(keys []Key) []Record {
	var list []Record
	for _, key := range keys {
		list = append(list, c.records[key])
	}
	slices.SortFunc(list, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// index has the keys of the records of each owner.
type index map[string][]Key

func (i index) add(owner string, key Key) { i[owner] = append(i[owner], key) }

func (i index) remove(owner string, key Key) {
	i[owner] = slices.DeleteFunc(i[owner], func(other Key) bool { return other == key })
	if len(i[owner]) == 0 {
		delete(i, owner)
	}
}

// counters only grow.
type counters struct {
	// Seq is the last assigned Record.Seq.
	Seq uint64 `json:"seq"`
	// Shadow is the last assigned index into the shadow ranges.
	Shadow uint64 `json:"shadow"`
}

// Open reads the journal at cfg.Path, or starts an empty one, and keeps it for
// this process alone until Close. It waits until ctx ends for another process
// to close it.
//
// A file that can't be read, or only in part, is moved aside and reported by Damaged;
// the journal continues with the records that could be read. Open succeeds for a file
// that can't be written: Failing reports it, Begin fails, and the other methods work
// in memory.
func Open(ctx context.Context, cfg Config) (*Journal, error) {
	if cfg.Clock == nil {
		cfg.Clock = wall{}
	}
	d, c, damage, err := openDisk(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open journal %s: %w", cfg.Path, err)
	}
	j := &Journal{cfg: cfg, disk: d, content: c}
	if err := j.Repair(); err != nil {
		cfg.Log.Error("journal can't be written; no pod can be attached until it can", "path", cfg.Path, "error", err)
	}
	if damage != nil {
		cfg.Log.Error("journal is damaged; moved it aside and went on with what could be read",
			"path", cfg.Path, "movedTo", d.movedTo, "records", len(c.records), "error", damage)
	}
	return j, nil
}

// Damaged returns the place of a damaged file that Open moved, or "" without damage. Attachments
// may be missing from the records then.
func (j *Journal) Damaged() string { return j.disk.movedTo }

// Failing returns why the file can't be written, and since when; nil when the
// last attempt succeeded.
func (j *Journal) Failing() (since time.Time, why error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.failing, j.failure
}

// Repair writes the file anew if it could not be written. Every change tries
// it as well.
func (j *Journal) Repair() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	return j.note(j.renew())
}

// renew writes the file anew if it is closed or too large. The caller holds writing. The same holds
// for the next two functions.
func (j *Journal) renew() error {
	if j.disk.file != nil && j.disk.size < j.disk.limit {
		return nil
	}
	if j.cfg.Format != nil {
		if err := j.cfg.Format.Note(); err != nil {
			return err
		}
	}
	return j.disk.renew(j.content)
}

// write puts changes on disk, and all earlier changes that are not on disk yet. It returns the
// number of the last one. After an error the file is written anew from memory, without the given
// changes.
func (j *Journal) write(changes ...change) (number uint64, err error) {
	if err := j.renew(); err != nil {
		return 0, j.note(err)
	}
	for _, ch := range changes {
		if number, err = j.disk.write(ch); err != nil {
			err = errors.Join(err, j.disk.discard())
			break
		}
	}
	return number, j.note(err)
}

// note records whether the file could be written. Its error has the remedy.
func (j *Journal) note(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case err == nil:
		j.failure = nil
		return nil
	case j.failure == nil:
		j.failing = time.Now()
	}
	j.failure = fmt.Errorf(
		"the journal %s can't be written; make room for it, or its file system writable: %w",
		j.cfg.Path,
		err,
	)
	return j.failure
}

// Close closes the file and releases the lock.
func (j *Journal) Close() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	return j.disk.close()
}

// Get returns one record, or ErrNotFound.
func (j *Journal) Get(key Key) (Record, error) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	rec, ok := j.content.records[key]
	if !ok {
		return Record{}, fmt.Errorf("attachment %s: %w", key, ErrNotFound)
	}
	return rec, nil
}

// OfContainer returns the records of a container, the oldest first.
func (j *Journal) OfContainer(containerID string) []Record {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.content.of(j.content.ofContainer[containerID])
}

// OfPod returns the records of the pod with a UID, of all its sandboxes, the oldest first.
func (j *Journal) OfPod(uid string) []Record {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.content.of(j.content.ofPod[uid])
}

// Reader has the records of a journal.
type Reader interface {
	// Records returns all records, the oldest first. Callers must not change the list.
	Records() []Record
}

// Records returns all records, the oldest first. Callers share the list and must not
// change it. Until the next change every call returns the same list.
func (j *Journal) Records() []Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.sorted == nil {
		j.sorted = bySeq(j.content.records)
	}
	return j.sorted
}

// Same reports whether two results of Records are the same list, without a change
// between them.
func Same(a, b []Record) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// Releases returns the release queue, the oldest attachment first.
func (j *Journal) Releases() []Record {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return bySeq(j.content.releases)
}

// Queued reports whether the release queue has the attachment with a sequence number.
func (j *Journal) Queued(seq uint64) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	_, ok := j.content.releases[seq]
	return ok
}

func bySeq[K comparable](records map[K]Record) []Record {
	list := slices.AppendSeq(make([]Record, 0, len(records)), maps.Values(records))
	slices.SortFunc(list, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// Adopt stores the record of an attachment that exists already, with phase PhaseDone, and returns
// it as Begin does. It keeps the shadow addresses that rec comes with if they are free. As with
// Leave, a disk that can't be written is not an error: the attachment exists.
func (j *Journal) Adopt(rec Record, dev Device) (Record, error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	if _, err := j.Get(rec.Key); err == nil {
		return rec, fmt.Errorf("adopt attachment %s: %w", rec.Key, ErrExists)
	}
	if err := deviceFree(rec, j.Records()); err != nil {
		return rec, fmt.Errorf("adopt attachment %s: %w", rec.Key, err)
	}
	next := j.content.counters
	if !j.ownShadows(rec) {
		if err := j.chooseShadows(&rec, &next, j.Records()); err != nil {
			return rec, fmt.Errorf("adopt attachment %s: %w", rec.Key, err)
		}
	}
	j.number(&rec, &next)
	rec.Phase, rec.Device = PhaseDone, dev
	j.apply(func(c *content) {
		c.put(rec)
		c.counters = next
	})
	if _, err := j.write(change{Put: &rec, Counters: &next}); err != nil {
		j.cfg.Log.Error("cannot write the journal; going on", "error", err)
	}
	return rec, nil
}

func (j *Journal) number(rec *Record, next *counters) {
	next.Seq++
	rec.Seq, rec.Begun = next.Seq, j.cfg.Clock.Now().UTC()
}

// Complete moves a record to PhaseDone.
func (j *Journal) Complete(key Key, dev Device) (Record, error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	rec, err := j.Get(key)
	if err != nil {
		return Record{}, err
	}
	rec.Phase, rec.Device = PhaseDone, dev
	if _, err := j.write(change{Put: &rec}); err != nil {
		return Record{}, fmt.Errorf("complete attachment %s: %w", key, err)
	}
	j.apply(func(c *content) { c.put(rec) })
	return rec, nil
}

// Resize gives a record another MTU, in bytes.
func (j *Journal) Resize(key Key, mtu int) (Record, error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	rec, err := j.Get(key)
	if err != nil {
		return Record{}, err
	}
	rec.MTU = mtu
	if _, err := j.write(change{Put: &rec}); err != nil {
		return Record{}, fmt.Errorf("write the MTU of attachment %s: %w", key, err)
	}
	j.apply(func(c *content) { c.put(rec) })
	return rec, nil
}

// Leave moves a record to PhaseLeaving.
//
// Leave, Retire and Released hold for this process even when they return an
// error because the disk could not be written: a full disk must not prevent pods from
// ending. The disk then has records of removed attachments, until it can be written
// again, or until the next start undoes them.
func (j *Journal) Leave(key Key) (Record, error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	rec, err := j.Get(key)
	if err != nil {
		return Record{}, err
	}
	rec.Phase = PhaseLeaving
	j.apply(func(c *content) { c.put(rec) })
	if _, err := j.write(change{Put: &rec}); err != nil {
		return rec, fmt.Errorf("write that attachment %s is leaving: %w", key, err)
	}
	return rec, nil
}

// Retire moves a record to the release queue, in one step: whenever the
// process dies, the attachment is in one of the two. See Leave for errors.
func (j *Journal) Retire(key Key) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	rec, err := j.Get(key)
	if err != nil {
		return err
	}
	j.apply(func(c *content) {
		c.remove(key)
		c.releases[rec.Seq] = rec
	})
	if _, err := j.write(change{Drop: &rec.Key, Queue: &rec}); err != nil {
		return fmt.Errorf("write that attachment %s is retired: %w", key, err)
	}
	return nil
}

// Released takes the attachment with sequence number seq off the release queue. A missing one is
// not an error. See Leave for others.
func (j *Journal) Released(seq uint64) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.apply(func(c *content) { delete(c.releases, seq) })
	if _, err := j.write(change{Unqueue: seq}); err != nil {
		return fmt.Errorf("write that attachment %d is off the release queue: %w", seq, err)
	}
	return nil
}

func (j *Journal) apply(f func(*content)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.content)
	j.sorted = nil
}
