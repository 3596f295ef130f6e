// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/durable"
)

// disk is the file: a log of changes, one to a line. All changes survive the
// process as soon as they are written, because the kernel holds them. To survive
// a power failure they need a flush; few do, as no attachment survives one.
//
// If the file could not be written, the next change writes it again as a whole, from
// memory.
type disk struct {
	path string
	lock *os.File
	// damaged are the paths of files that are moved aside and not replaced; movedTo
	// is set once that has worked.
	damaged []string
	movedTo string
	clock   Clock

	// size is the length of the file. At the length limit it is written again without
	// the changes that later ones have undone.
	size, limit int64
	// written counts changes. As file does, it changes only while Journal.writing
	// is held; it may be read at any time.
	written atomic.Uint64
	// flushing guards the fields below: file, nil while it can't be written, and
	// the number of changes that the last flush covered.
	flushing sync.Mutex
	file     *os.File
	flushed  uint64
}

// slack is a number of bytes. A file that exceeds twice its first length by slack is written
// again. It is enough for some hundred attachments and their removal.
const slack = 1 << 20

// openDisk takes the lock and reads the file. It returns damage. A file that can't be written is
// not an error yet.
func openDisk(ctx context.Context, cfg Config) (d *disk, c content, damage error, err error) {
	path := cfg.Path
	d = &disk{path: path, clock: cfg.Clock}
	if d.lock, err = takeLock(ctx, filepath.Dir(path)); err != nil {
		return nil, content{}, nil, err
	}
	if cfg.Format != nil {
		err = cfg.Format.Check()
	}
	if err == nil {
		c, damage, err = readFile(path)
	}
	if err != nil {
		return nil, content{}, nil, errors.Join(err, d.lock.Close())
	}
	if damage != nil {
		d.damaged = append(d.damaged, path)
	}
	if earlier := earlierPath(path); exists(earlier) {
		d.damaged = append(d.damaged, earlier)
		damage = errors.Join(damage, fmt.Errorf("%s is in the format of an earlier release", earlier))
	}
	return d, c, damage, nil
}

// earlierPath returns the path of format 1, a database. It is not read: the records of
// running pods can be rebuilt from the node and the API.
func earlierPath(path string) string { return strings.TrimSuffix(path, ".log") + ".db" }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// takeLock prevents two daemons, as in a roll-out, from using one journal. The
// lock is on its directory because the file is replaced, and because no file
// can be created on a full disk.
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
	if err := d.moveAside(); err != nil {
		return fmt.Errorf("move damaged file aside: %w", err)
	}
	text, err := c.encode()
	if err != nil {
		return err
	}
	file, err := durable.Create(d.path, text)
	if err != nil {
		return err
	}
	if d.file != nil {
		err = d.file.Close()
	}
	d.file, d.flushed = file, d.written.Load()
	d.size, d.limit = int64(len(text)), int64(2*len(text)+slack)
	return err
}

// moveAside renames damaged files, to names beside the journal.
func (d *disk) moveAside() error {
	for len(d.damaged) > 0 {
		aside := d.damaged[0] + ".damaged-" + d.clock.Now().UTC().Format("20060102T150405.000000000")
		if err := os.Rename(d.damaged[0], aside); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		d.damaged = d.damaged[1:]
		if d.movedTo == "" {
			d.movedTo = aside
		}
	}
	return nil
}

// discard closes a file that could not be written. Its content is complete, but older
// than memory.
func (d *disk) discard() error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	file := d.file
	d.file = nil
	return file.Close()
}

// write appends a change, and returns its number for flush.
func (d *disk) write(ch change) (uint64, error) {
	line, err := ch.encode()
	if err != nil {
		return 0, err
	}
	if _, err := d.file.Write(line); err != nil {
		// The next start would take a part of a line for damage.
		return 0, errors.Join(err, d.file.Truncate(d.size))
	}
	d.size += int64(len(line))
	return d.written.Add(1), nil
}

// flush returns when the change with that number is safe from a power failure.
// If several goroutines call it, one flush covers all changes that were written when
// it began.
func (d *disk) flush(number uint64) error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	if d.flushed >= number {
		return nil
	}
	covered := d.written.Load()
	if d.file == nil {
		return errors.New("flush: the file can't be written")
	}
	if err := unix.Fdatasync(int(d.file.Fd())); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	d.flushed = covered
	return nil
}

func (d *disk) close() error {
	d.flushing.Lock()
	defer d.flushing.Unlock()
	if d.file == nil {
		return d.lock.Close()
	}
	return errors.Join(d.file.Sync(), d.file.Close(), d.lock.Close())
}
