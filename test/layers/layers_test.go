// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

var update = flag.Bool("update", false, "write the picture of ARCHITECTURE.md instead of comparing it")

func read(t *testing.T) Table {
	t.Helper()
	table, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTable_Layers_PointDownward(t *testing.T) {
	for _, problem := range read(t).Check() {
		t.Error(problem)
	}
}

func TestImports_EachPackage_FollowTable(t *testing.T) {
	table := read(t)
	list, err := Packages(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 300 {
		t.Errorf("only %d packages were found", len(list))
	}
	for _, p := range list {
		for _, imported := range p.Imports {
			if problem := table.Refuse(p.Folder, imported); problem != "" {
				t.Error(strings.ReplaceAll(problem, Module+"/", ""))
			}
		}
	}
}

// TestTable_UnusedPermission_Absent: a permission that no package uses lets the next import in
// without a decision.
func TestTable_UnusedPermission_Absent(t *testing.T) {
	table := read(t)
	list, err := Packages(root)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, p := range list {
		layer, _ := table.LayerOf(p.Folder)
		for _, imported := range p.Imports {
			used[layer.Name+" "+table.permission(layer, imported)] = true
		}
	}
	for _, layer := range table.Layers {
		for _, word := range append(slices.Clone(layer.Uses), layer.Modules...) {
			if word != everything && !used[layer.Name+" "+word] {
				t.Errorf("no package of the layer %s uses %s: remove it", layer.Name, word)
			}
		}
	}
}

func TestArchitecture_Picture_MatchesTable(t *testing.T) {
	list, err := Packages(root)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "ARCHITECTURE.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- drawn by: go test ./test/layers -update -->\n```\n", "```\n"
	before, rest, ok := strings.Cut(string(page), begin)
	if !ok {
		t.Fatalf("ARCHITECTURE.md has no place for the picture: %s", begin)
	}
	_, after, _ := strings.Cut(rest, end)
	want := before + begin + read(t).Draw(list) + end + after
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatal("the picture of ARCHITECTURE.md is another one: run go test ./test/layers -update")
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRefuse_ForbiddenImport_Named has one import of each kind that the table forbids, and its
// neighbour that is allowed.
func TestRefuse_ForbiddenImport_Named(t *testing.T) {
	table := Table{
		Groups: map[string][]string{"kernel": {"example.org/kernel"}},
		Layers: []Layer{
			{Name: "helpers", Packages: []string{"top/helpers"}, ForTests: true, Modules: []string{everything}},
			{Name: "top", Packages: []string{"top/*"}, Uses: []string{everything}, Modules: []string{"kernel"}},
			{Name: "side", Packages: []string{"side"}, Uses: []string{"bottom"}},
			{Name: "bottom", Packages: []string{"bottom/*", "top/bottom"}, Pure: true},
		},
	}
	for _, c := range []struct {
		folder, imported, want string
	}{
		{"top", Module + "/side", ""},
		{"top/a", Module + "/bottom/b", ""},
		{"top/a", Module + "/top/b", ""},
		{"top/a", Module + "/top/helpers", "for tests alone"},
		{"top/helpers", Module + "/top", ""},
		{"side", Module + "/bottom", ""},
		{"side", Module + "/top", "may not use the layer top"},
		{"bottom", Module + "/side", "may not use the layer side"},
		{"top/bottom", Module + "/top", "may not use the layer top"},
		{"top/bottom/c", Module + "/side", ""},
		{"other", Module + "/side", "is in no layer"},
		{"side", Module + "/other", "is in no layer"},
		{"top", "example.org/kernel/link", ""},
		{"top", "example.org/kernels", "may import the modules"},
		{"side", "example.org/kernel", "may import the modules"},
		{"side", "log/slog", ""},
		{"bottom", "log/slog", "is pure"},
		{"bottom", "strings", ""},
	} {
		got := table.Refuse(c.folder, c.imported)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("import of %s by %s: got %q, want %q", c.imported, c.folder, got, c.want)
		}
	}
}

func TestCheck_WrongTable_Refused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		layers     []Layer
	}{
		{"upward", "not a layer below", []Layer{{Name: "a"}, {Name: "b", Uses: []string{"a"}}}},
		{"unknown", "not a layer below", []Layer{{Name: "a", Uses: []string{"c"}}}},
		{"no group", "not a group", []Layer{{Name: "a", Modules: []string{"c"}}}},
		{"twice", "two layers", []Layer{{Name: "a"}, {Name: "a"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(Table{Layers: c.layers}.Check(), "; "); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
