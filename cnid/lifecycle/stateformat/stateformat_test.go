// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stateformat

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/alioth-net/alioth/api/version"
)

func TestStateFormat_Newer_RefusedAndKept(t *testing.T) {
	for text, known := range map[string]bool{
		strconv.Itoa(version.State): true, strconv.Itoa(version.State-1) + "\n": true,
		strconv.Itoa(version.State + 1): false, "two": false, "": false,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Check(dir); (err == nil) != known || (err != nil && !errors.Is(err, ErrNewer)) {
			t.Errorf("%q: %v, want it known: %v", text, err, known)
		}
		if left, err := os.ReadFile(filepath.Join(dir, File)); err != nil || string(left) != text {
			t.Errorf("%q became %q, %v", text, left, err)
		}
	}
}

func TestStateFormat_Missing_Created(t *testing.T) {
	dir := t.TempDir()
	if err := Check(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Note(dir); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, File)); err != nil || string(text) != strconv.Itoa(version.State)+"\n" {
		t.Errorf("%q, %v", text, err)
	}
}
