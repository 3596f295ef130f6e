// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// locked reports whether a process has the lock of a folder.
func locked(t *testing.T, dir string) bool {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

var errFormat = errors.New("format")

// format implements Format.
type format struct{ check, note func() error }

// Check implements Format.
func (f format) Check() error { return f.check() }

// Note implements Format.
func (f format) Note() error { return f.note() }

func TestJournalFormat_FirstWrite_CheckedUnderLock(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	var calls []string
	step := func(name string) func() error {
		return func() error {
			calls = append(calls, name)
			if !locked(t, filepath.Dir(cfg.Path)) {
				t.Errorf("%s: the lock is not held", name)
			}
			if exists(cfg.Path) {
				t.Errorf("%s: the file is written already", name)
			}
			return nil
		}
	}
	cfg.Format = format{check: step("check"), note: step("note")}
	j := open(t, cfg)
	begin(t, j, testRecord(1))
	if len(calls) != 2 || calls[0] != "check" || calls[1] != "note" {
		t.Errorf("the calls were %v", calls)
	}
}

func TestJournalFormat_Refused_NoFileOrLockLeft(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	cfg.Format = format{
		check: func() error { return errFormat },
		note:  func() error { t.Error("the format was noted"); return nil },
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, errFormat) {
		t.Errorf("got %v", err)
	}
	if exists(cfg.Path) || locked(t, filepath.Dir(cfg.Path)) {
		t.Error("the file is written, or the lock is held")
	}
}

// TestJournalFormat_Unwritable_NotedLater: until then nothing is written that an older release
// would read.
func TestJournalFormat_Unwritable_NotedLater(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	failure := errFormat
	cfg.Format = format{check: func() error { return nil }, note: func() error { return failure }}
	j := open(t, cfg)
	if _, err := j.Begin(testRecord(1)); !errors.Is(err, errFormat) || exists(cfg.Path) {
		t.Errorf("a record was begun without the format: %v", err)
	}
	if err := j.Repair(); !errors.Is(err, errFormat) {
		t.Errorf("repair: %v", err)
	}
	failure = nil
	if err := j.Repair(); err != nil || !exists(cfg.Path) {
		t.Errorf("repair: %v", err)
	}
	begin(t, j, testRecord(1))
}
