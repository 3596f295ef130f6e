// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fullFile returns the bytes of a journal of many pages, and what is in it.
func fullFile(t testing.TB) ([]byte, map[uint64]Record) {
	t.Helper()
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.db"))
	j := open(t, cfg)
	all := map[uint64]Record{}
	for i := range 60 {
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
	cfg := testConfig(filepath.Join(t.TempDir(), "journal.db"))
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

func TestADamagedJournalIsMovedAside(t *testing.T) {
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
		{"first page only", raw[:4096]},
		{"both meta pages", func() []byte { b := flip(16); b[4096+16] ^= 1; return b }()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, damaged := checkDamaged(t, tc.raw, all); !damaged {
				t.Error("the journal was taken for intact")
			}
		})
	}
}

func TestOneDamagedRecordCostsNoOther(t *testing.T) {
	raw, all := fullFile(t)
	at := indexOf(t, raw, `"name":"web-20"`)
	for i := range raw { // every copy: old pages hold some too
		if i+15 <= len(raw) && string(raw[i:i+15]) == `"name":"web-20"` {
			raw[i+8] = 'W'
		}
	}
	kept, damaged := checkDamaged(t, raw, all)
	if !damaged || kept != len(all)-1 {
		t.Errorf("damage at %d: kept %d of %d records, damaged %t", at, kept, len(all), damaged)
	}
}

func indexOf(t *testing.T, raw []byte, text string) int {
	t.Helper()
	for i := range len(raw) - len(text) {
		if string(raw[i:i+len(text)]) == text {
			return i
		}
	}
	t.Fatalf("%q is not in the file", text)
	return 0
}

// TestNoDamagedByteBringsTheDaemonDown is the part of the fuzz test that runs
// every time: the bytes that say where things are, with a fixed seed.
func TestNoDamagedByteBringsTheDaemonDown(t *testing.T) {
	raw, all := fullFile(t)
	random := rand.New(rand.NewPCG(1, 2))
	damagedOnce := false
	for range 80 {
		out := append([]byte(nil), raw...)
		page := random.IntN(len(raw)/4096) * 4096
		for range 1 + random.IntN(3) {
			out[page+random.IntN(128)] = byte(random.IntN(256))
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
	f.Add(uint32(4096*3), uint32(len(raw)), []byte{7, 0, 0, 0, 0, 0, 0, 0})
	f.Add(uint32(4096*5+16), uint32(4096*6), []byte{1, 2, 3, 4, 5})
	f.Fuzz(func(t *testing.T, at, length uint32, bytes []byte) {
		out := append([]byte(nil), raw...)
		copy(out[int(at)%len(out):], bytes)
		checkDamaged(t, out[:int(length)%(len(out)+1)], all)
	})
}
