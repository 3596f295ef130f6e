// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/needs"
)

// smallDisk is a file system that is easily full, with a file that is not the journal's.
type smallDisk struct{ dir string }

func newSmallDisk(t *testing.T) smallDisk {
	t.Helper()
	needs.Root(t, "to mount a tmpfs")
	d := smallDisk{dir: t.TempDir()}
	err := unix.Mount("tmpfs", d.dir, "tmpfs", 0, "size=512k")
	if errors.Is(err, unix.EPERM) {
		t.Skip("needs CAP_SYS_ADMIN, to mount a tmpfs")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(d.other(), []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d smallDisk) other() string   { return filepath.Join(d.dir, "other") }
func (d smallDisk) filler() string  { return filepath.Join(d.dir, "filler") }
func (d smallDisk) journal() string { return filepath.Join(d.dir, "journal.log") }

func (d smallDisk) fill(t *testing.T) {
	t.Helper()
	err := os.WriteFile(d.filler(), bytes.Repeat([]byte("x"), 1<<20), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
}

func (d smallDisk) empty(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		t.Fatal(err)
	}
}

func (d smallDisk) remount(t *testing.T, flags uintptr) {
	t.Helper()
	if err := unix.Mount("", d.dir, "", unix.MS_REMOUNT|flags, "size=512k"); err != nil {
		t.Fatal(err)
	}
}

func (d smallDisk) readOnly(t *testing.T) {
	t.Helper()
	d.remount(t, unix.MS_RDONLY)
}

func (d smallDisk) writable(t *testing.T) {
	t.Helper()
	d.remount(t, 0)
}

// TestJournal_DiskUnwritable_BeginFailsEndSucceeds has a disk that fills
// up, or becomes read-only, under a journal that is open or before it is
// opened. When it can be written again, everything is made good.
func TestJournal_DiskUnwritable_BeginFailsEndSucceeds(t *testing.T) {
	for _, tc := range []struct {
		name       string
		spoil      func(smallDisk, *testing.T)
		restore    func(smallDisk, *testing.T)
		want       error
		whenClosed bool
	}{
		{"full while open", smallDisk.fill, smallDisk.empty, unix.ENOSPC, false},
		{"full when opened", smallDisk.fill, smallDisk.empty, unix.ENOSPC, true},
		{"read-only when opened", smallDisk.readOnly, smallDisk.writable, unix.EROFS, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			disk := newSmallDisk(t)
			cfg := testConfig(disk.journal())
			j := open(t, cfg)
			queued, leaving, staying := begin(t, j, testRecord(1)), begin(t, j, testRecord(2)), begin(t, j, testRecord(3))
			if err := j.Retire(queued.Key); err != nil {
				t.Fatal(err)
			}
			if tc.whenClosed {
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
			tc.spoil(disk, t)
			if tc.whenClosed {
				j = open(t, cfg)
			}
			// The file may have room of its own.
			kept := beginWhatFits(t, j, staying)
			expectEndingsOnly(t, j, queued, leaving, tc.want)
			if diff := cmp.Diff(kept, j.Records(), compareAddrs); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			tc.restore(disk, t)
			if err := j.Repair(); err != nil {
				t.Errorf("repair: %v", err)
			}
			if _, err := j.Failing(); err != nil {
				t.Errorf("after repair: %v", err)
			}
			fresh := begin(t, j, testRecord(4))
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = open(t, cfg)
			if diff := cmp.Diff(append(kept, fresh), j.Records(), compareAddrs); diff != "" {
				t.Errorf("records on disk (-want +got):\n%s", diff)
			}
			if got := j.Releases(); len(got) != 1 || got[0].Key != leaving.Key {
				t.Errorf("releases on disk: %v", got)
			}
			disk.expectNothingElse(t)
		})
	}
}

// TestJournal_DiskFullMidPod_NoRecordStored: the file may have the first ones until
// it is written anew.
func TestJournal_DiskFullMidPod_NoRecordStored(t *testing.T) {
	for extra := range 2 { // one of them leaves room for an odd number of records
		disk := newSmallDisk(t)
		cfg := testConfig(disk.journal())
		j := open(t, cfg)
		kept := []Record{begin(t, j, testRecord(1))}
		for i := range extra {
			kept = append(kept, begin(t, j, testRecord(2+i)))
		}
		disk.fill(t)
		for i := 0; ; i += 2 {
			pair, err := j.BeginAll([]Record{testRecord(100 + i), testRecord(101 + i)})
			if err != nil {
				break
			}
			if i > 1000 {
				t.Fatal("the disk is never full")
			}
			kept = append(kept, pair...)
		}
		if diff := cmp.Diff(kept, j.Records(), compareAddrs); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		disk.empty(t)
		if err := errors.Join(j.Repair(), j.Close()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(kept, open(t, cfg).Records(), compareAddrs); diff != "" {
			t.Errorf("records on disk (-want +got):\n%s", diff)
		}
	}
}

// beginWhatFits begins attachments until one can't be, and returns them behind
// those given.
func beginWhatFits(t *testing.T, j *Journal, list ...Record) []Record {
	t.Helper()
	for i := range 1000 {
		rec, err := j.Begin(testRecord(100 + i))
		if err != nil {
			return list
		}
		list = append(list, rec)
	}
	t.Fatal("the disk is never full")
	return nil
}

// expectEndingsOnly fails the test unless nothing can be begun and everything can be
// ended, each with an error that contains the cause and the remedy.
func expectEndingsOnly(t *testing.T, j *Journal, queued, leaving Record, want error) {
	t.Helper()
	_, begun := j.Begin(testRecord(4))
	rec, left := j.Leave(leaving.Key)
	if rec.Phase != PhaseLeaving {
		t.Errorf("left in phase %s", rec.Phase)
	}
	_, failing := j.Failing()
	for what, err := range map[string]error{
		"begin": begun, "leave": left, "retire": j.Retire(leaving.Key), "released": j.Released(queued.Seq), "failing": failing,
	} {
		if !errors.Is(err, want) || !strings.Contains(err.Error(), j.cfg.Path) || !strings.Contains(err.Error(), "make room") {
			t.Errorf("%s: got %v, want %v with path and remedy", what, err, want)
		}
	}
	if got := j.Releases(); len(got) != 1 || got[0].Key != leaving.Key {
		t.Errorf("releases: %v", got)
	}
}

func (d smallDisk) expectNothingElse(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{"journal.log", "other"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if text, err := os.ReadFile(d.other()); err != nil || string(text) != "not ours" {
		t.Errorf("somebody else's file: %q, %v", text, err)
	}
}

func TestJournal_DamagedOnUnwritableDisk_MovedAsideLater(t *testing.T) {
	disk := newSmallDisk(t)
	cfg := testConfig(disk.journal())
	if err := os.WriteFile(cfg.Path, []byte("this is no journal\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	disk.readOnly(t)
	j := open(t, cfg)
	if _, err := j.Failing(); !errors.Is(err, unix.EROFS) || j.Damaged() != "" {
		t.Errorf("failing: %v, moved to %q", err, j.Damaged())
	}
	disk.writable(t)
	begin(t, j, testRecord(1))
	if aside, err := os.ReadFile(j.Damaged()); err != nil || string(aside) != "this is no journal\n" {
		t.Errorf("moved aside to %q: %v", j.Damaged(), err)
	}
}

func TestJournal_FlushFails_FileRewritten(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	j := open(t, cfg)
	staying := begin(t, j, testRecord(1))
	if err := j.disk.file.Close(); err != nil { // every write fails from here on, until the file is replaced
		t.Fatal(err)
	}
	if _, err := j.Begin(testRecord(2)); err == nil {
		t.Error("an attachment was begun that is not on disk")
	}
	fresh := begin(t, j, testRecord(2))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Record{staying, fresh}, open(t, cfg).Records(), compareAddrs); diff != "" {
		t.Errorf("records on disk (-want +got):\n%s", diff)
	}
}
