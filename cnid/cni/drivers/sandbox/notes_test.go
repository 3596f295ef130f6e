// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
)

// note is the note of a driver.
type note struct {
	sandbox.Interface
	Device string `json:"device"`
}

func noteOf(container string, begun int64) note {
	return note{sandbox.Interface{ContainerID: container, IfName: "net1", Begun: time.Unix(begun, 0).UTC()}, "of " + container}
}

func TestNotes_SeveralInterfaces_KeptInBeginOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	notes, err := sandbox.NewNotes[note](dir)
	if err != nil {
		t.Fatal(err)
	}
	young, old := noteOf("young", 9), noteOf("old", 3)
	for _, one := range []note{young, noteOf("old", 8), old} { // the last one of an interface counts
		if err := notes.Put(one); err != nil {
			t.Fatal(err)
		}
	}
	if notes, err = sandbox.NewNotes[note](dir); err != nil { // after a restart
		t.Fatal(err)
	}
	list, err := notes.All()
	if diff := cmp.Diff([]note{old, young}, list); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, when := range []string{"first", "again"} {
		if err := notes.Remove(old); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	if _, ok, err := notes.Get("old", "net1"); ok || err != nil {
		t.Errorf("the removed one: %v, %v", ok, err)
	}
	if got, ok, err := notes.Get("young", "net1"); !ok || err != nil || !cmp.Equal(got, young) {
		t.Errorf("the other one: %+v, %v, %v", got, ok, err)
	}
}

// A process may end while it writes a note, or somebody may damage it.
func TestNote_Unreadable_IdentifiesNothing(t *testing.T) {
	dir := t.TempDir()
	notes, err := sandbox.NewNotes[note](dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := notes.Put(noteOf("c", 1)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	for _, change := range []func() error{
		func() error { return os.WriteFile(files[0], []byte(`{"containerID":`), 0o600) },
		func() error { return os.Rename(files[0], files[0]+".new") },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := notes.Get("c", "net1"); ok || err != nil {
			t.Errorf("got one: %v, %v", ok, err)
		}
		if list, err := notes.All(); len(list) != 0 || err != nil {
			t.Errorf("listed are %v, %v", list, err)
		}
	}
}

// Nobody asks again for an interface whose note was being written when the process ended.
func TestNote_Unfinished_NothingLeft(t *testing.T) {
	dir := t.TempDir()
	notes, err := sandbox.NewNotes[note](dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(notes.Put(noteOf("ended", 1)), notes.Put(noteOf("unfinished", 2)), notes.Remove(noteOf("ended", 1))); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Rename(files[0], files[0]+".new"); err != nil {
		t.Fatal(err)
	}
	if _, err := sandbox.NewNotes[note](dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
