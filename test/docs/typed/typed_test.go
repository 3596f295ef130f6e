// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/test/docs/pages"
)

// root of the work tree, seen from this package's folder.
const root = "../../.."

// TestTable_EachBlock_TypedOrReasoned: a new block needs an entry, and an entry its block.
func TestTable_EachBlock_TypedOrReasoned(t *testing.T) {
	all, err := pages.All(root)
	if err != nil {
		t.Fatal(err)
	}
	seen, runs := map[string]bool{}, 0
	for _, page := range all {
		if !Counts(page.Path) {
			continue
		}
		seen[page.Path] = true
		blocks, err := Sort(page, Table[page.Path].Entries)
		if err != nil {
			t.Error(err)
		}
		for _, block := range blocks {
			if block.NotHere == "" {
				runs++
			}
		}
	}
	for page := range Table {
		if !seen[page] {
			t.Errorf("the table has the page %s, which does not exist", page)
		}
	}
	if runs < 45 {
		t.Errorf("%d blocks are typed on the lab, want 45 or more", runs)
	}
}

// TestTable_Reasons_NamedTestsExist: the reason "another test does the same" is true only while
// that test exists.
func TestTable_Reasons_NamedTestsExist(t *testing.T) {
	var sources strings.Builder
	err := pages.Files(root, []string{"_test.go"}, func(_ string, content []byte) error {
		sources.Write(content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := fs.ReadFile(os.DirFS(root), "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for page, of := range Table {
		for _, entry := range of.Entries {
			for _, name := range regexp.MustCompile(`Test[A-Z]\w+`).FindAllString(entry.NotHere, -1) {
				if !strings.Contains(sources.String(), "func "+name+"(") {
					t.Errorf("%s: %q: there is no %s", page, entry.Begins, name)
				}
			}
			for _, target := range regexp.MustCompile("`make ([a-z-]+)`").FindAllStringSubmatch(entry.NotHere, -1) {
				if !strings.Contains(string(makefile), "\n"+target[1]+":") {
					t.Errorf("%s: %q: the Makefile has no target %s", page, entry.Begins, target[1])
				}
			}
		}
	}
}

func TestSort_Blocks_InPageOrder(t *testing.T) {
	page := pages.Parse("docs/a.md", []byte("```sh\nA=1 B=$(date -u)   # both\n```\n```sh\n# first\nkubectl get pods $A\n```\n"+
		"```yaml\na: b\n```\n```\n$ ls\nfile\n$ pwd\n```\n```\nno commands\n```\n"))
	one, two := Entry{Begins: "kubectl get"}, Entry{Begins: "ls", OnNode: true}
	blocks, err := Sort(page, []Entry{one, two})
	want := []Block{
		{Entry: one, Line: 5, Commands: "A=1 B=$(date -u)   # both\n# first\nkubectl get pods $A\n"},
		{Entry: two, Line: 12, Commands: "A=1 B=$(date -u)   # both\nls\npwd\n"},
	}
	if diff := cmp.Diff(want, blocks); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	if on := blocks[1].Step().Commands; !strings.HasPrefix(on, "node-exec node1 ") {
		t.Errorf("a block for a node is typed as %q", on)
	}
	bare := pages.Parse("docs/b.md", []byte("```\nkubectl get pods\n```\n"))
	for _, c := range []struct {
		page    *pages.Page
		entries []Entry
		want    string
	}{
		{page, []Entry{one}, "has no entry"},
		{page, []Entry{two, one}, "the next entry"},
		{page, []Entry{one, two, {Begins: "gone"}}, `no block begins with "gone"`},
		{bare, nil, "in a block ```sh"},
	} {
		if _, err := Sort(c.page, c.entries); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.entries, err, c.want)
		}
	}
}
