// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/docs/pages"
	"github.com/alioth-net/alioth/test/docs/typed"
	"github.com/alioth-net/alioth/test/examples"
	"github.com/alioth-net/alioth/test/examples/reader"
	"github.com/alioth-net/alioth/test/soak"
	"github.com/alioth-net/alioth/test/waits"
)

// How long a block may take: commands that only look are typed again meanwhile.
const (
	looking = time.Minute
	doing   = 5 * time.Minute
)

// TestPages_TypedCommands_WorkOnLab: the commands of pages do on the lab of the demo as the pages
// say. The table of test/docs/typed has the commands that can't be typed here.
func TestPages_TypedCommands_WorkOnLab(t *testing.T) {
	if os.Getenv("ALIOTH_E2E") == "" {
		t.Skip("needs a lab: set ALIOTH_E2E=1")
	}
	soak.Only(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, root) })
	var out bytes.Buffer
	if err := run(t.Context(), root, newPrinter(&out)); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	lab, err := cluster.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	keepRevision(t, lab)
	all, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range all {
		if typed.Counts(page.Path) {
			t.Run(page.Path, func(t *testing.T) { typePage(t, reader.Reader{Lab: lab, Folder: desk(t, root)}, page) })
		}
	}
}

// keepRevision goes back to the values that the lab has now at the end of a test: pages change
// some, and other tests go on with the lab.
func keepRevision(t *testing.T, lab *cluster.Cluster) {
	t.Helper()
	revision, err := lab.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(doing))
		defer cancel()
		if out, err := lab.Helm(ctx, "rollback", "alioth", strconv.Itoa(revision), "--namespace", cluster.SystemNamespace, "--wait"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// desk makes a folder with the content of the work tree, where commands may write files.
func desk(t *testing.T, root string) string {
	t.Helper()
	folder := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.Symlink(filepath.Join(root, entry.Name()), filepath.Join(folder, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// typePage types the blocks of a page, and the commands that the table has around them.
func typePage(t *testing.T, r reader.Reader, page *pages.Page) {
	t.Helper()
	of := typed.Table[page.Path]
	blocks, err := typed.Sort(page, of.Entries)
	if err != nil {
		t.Fatal(err)
	}
	if of.Before != "" {
		mustType(t, r, page.Path, examples.Step{Commands: of.Before})
	}
	if of.After != "" {
		defer mustType(t, r, page.Path, examples.Step{Commands: of.After})
	}
	for _, block := range blocks {
		if block.NotHere != "" {
			continue
		}
		mustType(t, r, page.At(block.Line), block.Step())
		if block.After != "" {
			mustType(t, r, page.At(block.Line), examples.Step{Commands: block.After})
		}
	}
}

func mustType(t *testing.T, r reader.Reader, at string, step examples.Step) {
	t.Helper()
	limit := doing
	if step.Repeatable() {
		limit = looking
	}
	began := time.Now()
	if err := r.Take(waits.Within(t, limit), step); err != nil {
		t.Errorf("%s: %v\n%s", at, err, step.Commands)
	}
	t.Logf("%s: typed within %s", at, time.Since(began).Round(time.Second))
}
