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

// disk is the open file. All changes survive the process as soon as they are
// written, because the kernel holds them. To survive a power failure they need
// a flush; few do, as no attachment survives one.
type disk struct {
	db   *bolt.DB
	lock *os.File

	// written counts changes. It and db belong to whoever holds
	// Journal.writing, but may be read at any time.
	written atomic.Uint64
	// flushed is the number of changes that the last flush covered.
	flushing sync.Mutex
	flushed  uint64
}

// found is what openDisk read.
type found struct {
	content content
	// damage is what was wrong with the file, or nil.
	damage error
	// movedTo is where the damaged file is now, or "".
	movedTo string
}

// openDisk takes the lock, reads the file and writes it anew. Writing anew
// keeps damage that reading did not meet, such as in the list of free pages,
// from being met by a write in the middle of an ADD.
func openDisk(ctx context.Context, path string, now func() time.Time) (*disk, found, error) {
	lock, err := takeLock(ctx, path+".lock")
	if err != nil {
		return nil, found{}, err
	}
	f, err := readFile(path)
	if err != nil {
		return nil, found{}, errors.Join(err, lock.Close())
	}
	if f.damage != nil {
		f.movedTo = path + ".damaged-" + now().UTC().Format("20060102T150405.000000000")
		if err := os.Rename(path, f.movedTo); err != nil {
			return nil, found{}, errors.Join(fmt.Errorf("move damaged file aside: %w", err), lock.Close())
		}
	}
	db, err := writeFile(path, f.content)
	if err != nil {
		return nil, found{}, errors.Join(err, lock.Close())
	}
	return &disk{db: db, lock: lock}, f, nil
}

// takeLock keeps two daemons, as in a roll-out, from using one journal. The
// lock is on a file of its own because the journal's is replaced at start.
func takeLock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
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
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			err := fmt.Errorf("lock %s: another process holds it; is an alioth-cnid still running here? %w", path, ctx.Err())
			return nil, errors.Join(err, f.Close())
		case <-tick.C:
		}
	}
}

// writeFile creates the file with the given content, durably and in one step,
// and leaves it open.
func writeFile(path string, c content) (*bolt.DB, error) {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	db, err := bolt.Open(fresh, 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", fresh, err)
	}
	err = db.Update(func(tx *bolt.Tx) error { return writeContent(tx, c) })
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), db.Close())
	}
	db.NoSync = true // from here on see disk.flush
	return db, nil
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

// readFile reads everything that is intact. The error says that the file must
// stay as it is.
func readFile(path string) (found, error) {
	f := found{content: content{records: map[Key]Record{}, releases: map[uint64]Record{}}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	err = checkPages(raw)
	if err == nil {
		err = readContent(path, &f.content)
	}
	if errors.Is(err, ErrNewerFormat) {
		return f, err
	}
	f.damage = err
	return f, nil
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
