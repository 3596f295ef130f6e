// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fullFile returns the bytes of a journal of many records, and the records. Half of the records
// are in the first version of the file, half were written later.
func fullFile(t testing.TB) ([]byte, map[uint64]Record) {
	t.Helper()
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	j := open(t, cfg)
	all := map[uint64]Record{}
	for i := range 60 {
		if i == 30 {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = open(t, cfg)
		}
		rec := begin(t, j, testRecord(i))
		if i%3 == 0 {
			if err := j.Retire(rec.Key); err != nil {
				t.Fatal(err)
			}
		}
		all[rec.Seq] = rec
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	return raw, all
}

// checkDamaged opens a journal over raw. It may have fewer records than
// written but no others, and must work from then on.
func checkDamaged(t *testing.T, raw []byte, all map[uint64]Record) (kept int, damaged bool) {
	t.Helper()
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	if err := os.WriteFile(cfg.Path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	j := open(t, cfg)
	found := append(j.Records(), j.Releases()...)
	for _, rec := range found {
		if diff := cmp.Diff(all[rec.Seq], rec, compareAddrs); diff != "" {
			t.Errorf("record %d is not as written (-want +got):\n%s", rec.Seq, diff)
		}
	}
	if j.Damaged() != "" {
		if aside, err := os.ReadFile(j.Damaged()); err != nil || string(aside) != string(raw) {
			t.Errorf("the damaged file is not at %s: %v", j.Damaged(), err)
		}
	}
	rec := begin(t, j, testRecord(1000))
	for _, other := range j.Records() {
		if other.Key != rec.Key && (other.Seq == rec.Seq || other.Shadow4 == rec.Shadow4) {
			t.Errorf("%s has number and shadow %d, %s of %s", rec.Key, rec.Seq, rec.Shadow4, other.Key)
		}
	}
	if err := j.Retire(rec.Key); err != nil {
		t.Errorf("retire: %v", err)
	}
	damaged = j.Damaged() != ""
	if err := j.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if j = open(t, cfg); j.Damaged() != "" {
		t.Error("the journal is still damaged when opened again")
	}
	return len(found), damaged
}

func TestJournal_Damaged_MovedAside(t *testing.T) {
	raw, all := fullFile(t)
	flip := func(at int) []byte {
		out := append([]byte(nil), raw...)
		out[at] ^= 0x10
		return out
	}
	for _, tc := range []struct {
		name string
		raw  []byte
	}{
		{"no bytes", nil},
		{"text", []byte("this is no journal\n")},
		{"zeros", make([]byte, 64<<10)},
		{"half", raw[:len(raw)/2]},
		{"first line only", raw[:bytes.IndexByte(raw, '\n')+1]},
		{"first line", flip(16)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, damaged := checkDamaged(t, tc.raw, all); !damaged {
				t.Error("the journal was taken for intact")
			}
		})
	}
}

func TestJournal_OneRecordDamaged_OthersKept(t *testing.T) {
	raw, all := fullFile(t)
	damaged := bytes.ReplaceAll(raw, []byte(`"name":"web-20"`), []byte(`"name":"Web-20"`))
	if bytes.Equal(raw, damaged) {
		t.Fatal("the record is not in the file")
	}
	if kept, damaged := checkDamaged(t, damaged, all); !damaged || kept != len(all)-1 {
		t.Errorf("kept %d of %d records, damaged %t", kept, len(all), damaged)
	}
}

// TestJournal_CompletionPossiblyLost_AttachmentForgotten: a start would undo it, and
// cut off a running pod. A lost line after that one costs nothing.
func TestJournal_CompletionPossiblyLost_AttachmentForgotten(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	j := open(t, cfg)
	var want []Record
	for i := range 4 {
		rec := begin(t, j, testRecord(i))
		if i == 3 {
			want = append(want, rec)
			break
		}
		rec, err := j.Complete(rec.Key, Device{HostIfindex: 10 + i})
		if err != nil {
			t.Fatal(err)
		}
		if i != 1 {
			want = append(want, rec)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	lost := bytes.Index(raw, []byte(`"hostIfindex":11`))
	raw[lost] = '\n' // one line becomes two, and neither is whole
	if err := os.WriteFile(cfg.Path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	j = open(t, cfg)
	if diff := cmp.Diff(want, j.Records(), compareAddrs); diff != "" || j.Damaged() == "" {
		t.Errorf("moved to %q, records (-want +got):\n%s", j.Damaged(), diff)
	}
}

// TestJournal_EarlierReleaseFile_MovedAside so that no daemon that reads this format finds
// the file later and takes it for the journal.
func TestJournal_EarlierReleaseFile_MovedAside(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	earlier := filepath.Join(filepath.Dir(cfg.Path), "journal.db")
	if err := os.WriteFile(earlier, []byte("a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := open(t, cfg)
	if text, err := os.ReadFile(j.Damaged()); err != nil || string(text) != "a database" {
		t.Errorf("moved to %q with %q, %v", j.Damaged(), text, err)
	}
	if _, err := os.Stat(earlier); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestJournal_FileGrows_RewrittenWithoutUndoneRecords(t *testing.T) {
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.log"))
	j := open(t, cfg)
	staying := begin(t, j, testRecord(1))
	for range 3 * slack / 500 { // a line has more than 500 bytes
		var err error
		if staying, err = j.Resize(staying.Key, staying.MTU+1); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(cfg.Path); err != nil || info.Size() > slack+8<<10 {
		t.Errorf("the file is %d bytes long, %v", info.Size(), err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Record{staying}, open(t, cfg).Records(), compareAddrs); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// TestJournal_AnyByteDamaged_NoCrash is the part of the fuzz test that runs
// every time, with a fixed seed.
func TestJournal_AnyByteDamaged_NoCrash(t *testing.T) {
	raw, all := fullFile(t)
	random := rand.New(rand.NewPCG(1, 2))
	damagedOnce := false
	for range 80 {
		out := append([]byte(nil), raw...)
		for range 1 + random.IntN(3) {
			out[random.IntN(len(raw))] = byte(random.IntN(256))
		}
		_, damaged := checkDamaged(t, out, all)
		damagedOnce = damagedOnce || damaged
	}
	if !damagedOnce {
		t.Error("no change was ever noticed; the test does not reach what it means to")
	}
}

func FuzzADamagedJournalNeverBringsTheDaemonDown(f *testing.F) {
	raw, all := fullFile(f)
	f.Add(uint32(0), uint32(len(raw)), []byte{0xff})
	f.Add(uint32(4096*3), uint32(len(raw)), []byte("\n"))
	f.Add(uint32(4096*5+16), uint32(4096*6), []byte{1, 2, 3, 4, 5})
	f.Add(uint32(0), uint32(len(raw)), []byte(`12345678 {"format":3}`+"\n"))
	f.Fuzz(func(t *testing.T, at, length uint32, bytes []byte) {
		out := append([]byte(nil), raw...)
		copy(out[int(at)%len(out):], bytes)
		checkDamaged(t, out[:int(length)%(len(out)+1)], all)
	})
}
