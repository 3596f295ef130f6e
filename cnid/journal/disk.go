// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// formatVersion is written into every file. A change that an older daemon
// would misread raises it.
const formatVersion = 1

var (
	bucketMeta        = []byte("meta")
	bucketAttachments = []byte("attachments")
	bucketReleases    = []byte("releases")
	keyVersion        = []byte("version")
	keyCounters       = []byte("counters")
)

// disk is the file. All changes survive the process as soon as they are
// written, because the kernel holds them. To survive a power failure they need
// a flush; few do, as no attachment survives one.
//
// A file that could not be written is written anew as a whole when the next
// change comes: what the disk missed meanwhile is in memory.
type disk struct {
	path string
	lock *os.File
	// damaged: the file at path is not ours to replace but to move aside, to
	// movedTo once that has worked.
	damaged bool
	movedTo string
	now     func() time.Time

	// written counts changes. It belongs, like all changes to db, to whoever
	// holds Journal.writing, but may be read at any time.
	written atomic.Uint64
	// flushing guards what follows: db, nil while the file can't be written,
	// and the number of changes that the last flush covered.
	flushing sync.Mutex
	db       *bolt.DB
	flushed  uint64
}

// openDisk takes the lock, reads the file and writes it anew. Writing anew
// keeps damage that reading did not meet, such as in the list of free pages,
// from being met by a write in the middle of an ADD. That it can't be written
// is no error yet, but damage is told.
func openDisk(ctx context.Context, path string, now func() time.Time) (d *disk, c content, damage error, err error) {
	d = &disk{path: path, now: now}
	if d.lock, err = takeLock(ctx, filepath.Dir(path)); err != nil {
		return nil, content{}, nil, err
	}
	c, damage, err = readFile(path)
	if err != nil {
		return nil, content{}, nil, errors.Join(err, d.lock.Close())
	}
	d.damaged = damage != nil
	return d, c, damage, nil
}

// takeLock keeps two daemons, as in a roll-out, from using one journal. The
// lock is on its directory because the file is replaced, and because no file
// can be made on a disk that is full.
func takeLock(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("lock %s: another process holds it; is an alioth-cnid still running here? %w", dir, ctx.Err())
			return nil, errors.Join(err, f.Close())
		case <-tick.C:
		}
	}
}

// renew puts all of c into a new file.
func (d *disk) renew(c content) error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	if d.damaged && d.movedTo == "" {
		aside := d.path + ".damaged-" + d.now().UTC().Format("20060102T150405.000000000")
		if err := os.Rename(d.path, aside); err != nil {
			return fmt.Errorf("move damaged file aside: %w", err)
		}
		d.movedTo = aside
	}
	db, err := writeFile(d.path, c)
	if err != nil {
		return err
	}
	d.db, d.flushed = db, d.written.Load()
	return nil
}

// discard lets go of a file that could not be written. What it holds is older
// than what there is, and whole.
func (d *disk) discard() error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	db := d.db
	d.db = nil
	return db.Close()
}

// writeFile creates the file with the given content, durably and in one step,
// and leaves it open.
func writeFile(path string, c content) (*bolt.DB, error) {
	fresh := path + ".new"
	if err := removed(fresh); err != nil {
		return nil, err
	}
	db, err := bolt.Open(fresh, 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create %s: %w", fresh, err), removed(fresh))
	}
	err = db.Update(func(tx *bolt.Tx) error { return writeContent(tx, c) })
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		// Not left to take what room there is.
		return nil, errors.Join(fmt.Errorf("write %s: %w", fresh, err), db.Close(), removed(fresh))
	}
	db.NoSync = true // from here on see disk.flush
	return db, nil
}

// removed makes sure that a file isn't there.
func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func writeContent(tx *bolt.Tx, c content) error {
	for _, name := range [][]byte{bucketMeta, bucketAttachments, bucketReleases} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	if err := put(tx.Bucket(bucketMeta), keyVersion, formatVersion); err != nil {
		return err
	}
	ch := []change{{counters: &c.counters}}
	for _, rec := range c.records {
		ch = append(ch, change{put: &rec})
	}
	for _, rec := range c.releases {
		ch = append(ch, change{queue: &rec})
	}
	for _, one := range ch {
		if err := one.write(tx); err != nil {
			return err
		}
	}
	return nil
}

// readFile reads everything that is intact, and returns what is wrong with the
// rest. The error says that the file must stay as it is.
func readFile(path string) (c content, damage error, err error) {
	c = content{records: map[Key]Record{}, releases: map[uint64]Record{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil, nil
	}
	if err == nil {
		err = checkPages(raw)
	}
	if err == nil {
		err = readContent(path, &c)
	}
	if errors.Is(err, ErrNewerFormat) {
		return c, nil, err
	}
	return c, err, nil
}

// readContent adds what is intact to c, and returns what isn't. It survives
// what bbolt does on damaged pages: panics, and reads behind its mapping.
func readContent(path string, c *content) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(err, fmt.Errorf("read pages: %v", p))
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	// Only a read transaction is open, so there is nothing that a failing
	// close could lose.
	defer func() { _ = db.Close() }()
	return db.View(func(tx *bolt.Tx) error { return readBuckets(tx, c) })
}

func readBuckets(tx *bolt.Tx, c *content) error {
	meta, attachments, releases := tx.Bucket(bucketMeta), tx.Bucket(bucketAttachments), tx.Bucket(bucketReleases)
	if meta == nil || attachments == nil || releases == nil {
		return errors.New("a bucket is missing")
	}
	var version int
	if err := get(meta.Get(keyVersion), &version); err != nil {
		return fmt.Errorf("read version: %w", err)
	}
	if version > formatVersion {
		return fmt.Errorf("%w: format %d, this one knows up to %d", ErrNewerFormat, version, formatVersion)
	}
	return errors.Join(
		get(meta.Get(keyCounters), &c.counters),
		readRecords(attachments, &c.counters, func(r Record) { c.records[r.Key] = r }),
		readRecords(releases, &c.counters, func(r Record) { c.releases[r.Seq] = r }))
}

// readRecords reads all intact records of a bucket. It raises the sequence
// counter to what they show, should the counters be damaged.
func readRecords(b *bolt.Bucket, counters *counters, add func(Record)) error {
	var damage error
	cursor := b.Cursor()
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		var rec Record
		if err := get(value, &rec); err != nil {
			damage = errors.Join(damage, fmt.Errorf("read record %q: %w", key, err))
			continue
		}
		counters.Seq = max(counters.Seq, rec.Seq)
		add(rec)
	}
	return damage
}

// change is one step of the journal.
type change struct {
	put      *Record // into the attachments
	drop     *Record // from the attachments
	queue    *Record // into the release queue
	unqueue  uint64  // from the release queue, if not 0
	counters *counters
}

// write carries out a change in one transaction, and returns its number for
// flush.
func (d *disk) write(ch change) (uint64, error) {
	if err := d.db.Update(ch.write); err != nil {
		return 0, err
	}
	return d.written.Add(1), nil
}

// flush returns when the change with that number is safe from a power failure.
// Of many callers at a time, one flushes for all whose changes were written
// when it began.
func (d *disk) flush(number uint64) error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	if d.flushed >= number {
		return nil
	}
	covered := d.written.Load()
	if d.db == nil {
		return errors.New("flush: the file can't be written")
	}
	if err := d.db.Sync(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	d.flushed = covered
	return nil
}

func (ch change) write(tx *bolt.Tx) error {
	attachments, releases := tx.Bucket(bucketAttachments), tx.Bucket(bucketReleases)
	var errs []error
	if ch.put != nil {
		errs = append(errs, put(attachments, recordKey(ch.put.Key), ch.put))
	}
	if ch.drop != nil {
		errs = append(errs, attachments.Delete(recordKey(ch.drop.Key)))
	}
	if ch.queue != nil {
		errs = append(errs, put(releases, releaseKey(ch.queue.Seq), ch.queue))
	}
	if ch.unqueue != 0 {
		errs = append(errs, releases.Delete(releaseKey(ch.unqueue)))
	}
	if ch.counters != nil {
		errs = append(errs, put(tx.Bucket(bucketMeta), keyCounters, ch.counters))
	}
	return errors.Join(errs...)
}

func (d *disk) close() error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	if d.db == nil {
		return d.lock.Close()
	}
	return errors.Join(d.db.Sync(), d.db.Close(), d.lock.Close())
}

func recordKey(k Key) []byte { return []byte(k.ContainerID + "\x00" + k.IfName) }

func releaseKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// put stores v as a CRC-32C, big-endian, with JSON behind it. bbolt guards its
// structure, not the values, with checksums.
func put(b *bolt.Bucket, key []byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, append(binary.BigEndian.AppendUint32(nil, checksum(text)), text...))
}

func get(value []byte, v any) error {
	if len(value) < 4 {
		return errors.New("value is missing or too short")
	}
	if checksum(value[4:]) != binary.BigEndian.Uint32(value) {
		return errors.New("checksum is wrong")
	}
	return json.Unmarshal(value[4:], v)
}

func checksum(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }
