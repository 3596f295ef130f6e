// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package automatic_test

import (
	"errors"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic"
)

func TestAutomaticStore_ProcessRestart_KeptUntilReboot(t *testing.T) {
	dir := t.TempDir()
	change := func(w *automatic.Wanted) error {
		w.Set(set("eth1", document.FamilyIPv4, on(nil)), 5)
		return nil
	}
	if err := automatic.NewStore(dir, "first").Change(change); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	err := automatic.NewStore(dir, "first").Change(func(w *automatic.Wanted) error {
		w.Remove("eth1")
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	for boot, want := range map[string]int{"first": 1, "second": 0} {
		w, err := automatic.NewStore(dir, boot).Wanted()
		if err != nil || len(w.Interfaces) != want {
			t.Errorf("in the boot %s: %+v, %v", boot, w, err)
		}
	}
}

func TestAutomaticStore_SecondProcess_Locked(t *testing.T) {
	store := automatic.NewStore(t.TempDir(), "boot")
	served := func(want bool) {
		t.Helper()
		if is, err := store.Served(); err != nil || is != want {
			t.Errorf("served: %v, %v", is, err)
		}
	}
	served(false)
	release, ok, err := store.Serve()
	if err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	served(true)
	if _, ok, err := store.Serve(); ok || err != nil {
		t.Errorf("a second one: %v, %v", ok, err)
	}
	release()
	served(false)
}
