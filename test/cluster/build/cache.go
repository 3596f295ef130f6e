// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/needs"
)

// Cache is a folder with one folder for each thing that is slow to make or to fetch. Such a folder
// appears by one rename, so that an existing folder is complete.
type Cache struct {
	Dir string
	// Progress receives one line when another process has to be waited for;
	// nil discards it.
	Progress func(line string)
}

// DefaultCache returns the folder used when the caller has no preference:
// "alioth" in the user's cache folder. Its programs take minutes to build, so tests that
// `make test-fast` runs get an error instead.
func DefaultCache() (string, error) {
	if err := needs.Undeclared(); err != nil {
		return "", err
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder (set HOME or XDG_CACHE_HOME): %w", err)
	}
	return filepath.Join(dir, "alioth"), nil
}

// Ensure returns the folder called key. Where it is missing, fill makes its content in an empty
// folder. Of all processes that want a folder of this name, one at a time does so.
func (c Cache) Ensure(name, key string, fill func(dir string) error) (string, error) {
	dir := filepath.Join(c.Dir, key)
	if exists(dir) {
		return dir, nil
	}
	unlock, err := c.lock(name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) { // another process made it while this one waited
		return dir, nil
	}
	tmp, err := os.MkdirTemp(c.Dir, "."+name+"-")
	if err != nil {
		return "", fmt.Errorf("make a folder in the cache: %w", err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", fmt.Errorf("open a folder of the cache to all users: %w", err)
	}
	if err := fill(tmp); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

// lock waits for the exclusive right to make name in this cache.
func (c Cache) lock(name string) (unlock func(), err error) {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cache folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(c.Dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open a lock of the cache: %w", err)
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		if c.Progress != nil {
			c.Progress("waiting for another process that makes " + name)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			f.Close()
			return nil, fmt.Errorf("wait for the lock %s: %w", f.Name(), err)
		}
	}
	return func() { f.Close() }, nil
}
