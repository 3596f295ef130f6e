// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reference writes the pages of docs/reference that follow from the source: the API
// from its CustomResourceDefinitions, and the command lines of the programs. Tests compare the
// pages; with -update they write them (make docs-reference).
package reference

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write pages of docs/reference instead of comparing them")

// Compare requires that a page below the root folder has a text, or writes it.
func Compare(t *testing.T, root, page, text string) {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(page))
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // a page that everybody reads
			t.Fatal(err)
		}
		return
	}
	is, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, string(is)); diff != "" {
		t.Errorf("%s is not as computed: run: make docs-reference\n%s", page, diff)
	}
}
