// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/alioth-net/alioth/cnid/system/durable"
)

func TestDurableFile_ReplaceAndRemove_Atomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	// A killed process has left this.
	if err := os.WriteFile(path+durable.Suffix, []byte("a part of a longer text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "2"} {
		file, err := durable.Create(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("got %q, %v; want %q", got, err, text)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("in the directory: %v, %v", left, err)
		}
	}
	for range 2 { // the second time it is missing
		if err := durable.Remove(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	if _, err := durable.Create(filepath.Join(dir, "none", "file"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the directory: %v", err)
	}
}

func TestDurableFile_ReplaceFails_NoPartLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.Create(path, []byte("text")); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
}
