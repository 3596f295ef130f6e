// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/alioth-net/alioth/"

// size is the size of a package: files and lines, without tests and generated files.
type size struct{ files, lines int }

// largest is the size that a package may have.
var largest = size{files: 15, lines: 2500}

// larger has the packages above these limits, with a limit of their own, the lines rounded up to
// hundreds. A package that fits has no row.
var larger = map[string]size{
	// One package is one version of the API, by the convention of Kubernetes.
	"api/v1alpha1": {15, 3500},
}

// smallest is the least number of lines of a package with one importer that needs no reason.
const smallest = 100

// ownReason is the phrase before the reason in the doc comment of a smaller package.
const ownReason = "package of its own"

// source is a package of the module.
type source struct {
	size
	doc       string
	program   bool
	importers map[string]bool
}

// sources returns the packages of the module by their folders.
func sources(t *testing.T) map[string]*source {
	t.Helper()
	found := map[string]*source{}
	at := func(folder string) *source {
		if found[folder] == nil {
			found[folder] = &source{importers: map[string]bool{}}
		}
		return found[folder]
	}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "testdata" || name != "." && strings.HasPrefix(name, ".") || isModule(file)) {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(file, ".go") {
			return nil
		}
		text, err := fs.ReadFile(os.DirFS(root), file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		folder := path.Dir(file)
		for _, one := range parsed.Imports {
			if below, ours := strings.CutPrefix(imported(one), module); ours && below != folder {
				at(below).importers[folder] = true
			}
		}
		if !strings.HasSuffix(file, "_test.go") && !ast.IsGenerated(parsed) {
			at(folder).add(parsed, strings.Count(string(text), "\n"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// isModule reports whether a folder is a module beside the product's.
func isModule(folder string) bool {
	_, err := os.Stat(path.Join(root, folder, "go.mod"))
	return err == nil && folder != "."
}

func imported(one *ast.ImportSpec) string {
	name, err := strconv.Unquote(one.Path.Value)
	if err != nil {
		return ""
	}
	return name
}

// add counts a file.
func (s *source) add(file *ast.File, lines int) {
	s.files, s.lines = s.files+1, s.lines+lines
	s.program = s.program || file.Name.Name == "main"
	if file.Doc != nil {
		s.doc += file.Doc.Text()
	}
}

// tooLarge returns a message for each package above its limit, and for each exception without
// need.
func tooLarge(packages map[string]*source, may map[string]size) (wrong []string) {
	for folder, s := range packages {
		limit := largest
		if exception, ok := may[folder]; ok {
			limit = exception
			if s.files <= largest.files && s.lines <= largest.lines {
				wrong = append(wrong, fmt.Sprintf("%s has %d files and %d lines, as any package may: remove its exception", folder, s.files, s.lines))
			}
		}
		if s.files > limit.files || s.lines > limit.lines {
			wrong = append(
				wrong,
				fmt.Sprintf("%s has %d files and %d lines, and may have %d and %d: split it by purpose", folder, s.files, s.lines, limit.files, limit.lines),
			)
		}
	}
	for folder := range may {
		if packages[folder] == nil {
			wrong = append(wrong, fmt.Sprintf("%s has an exception and does not exist: remove the exception", folder))
		}
	}
	return wrong
}

// tooSmall returns a message for each package that belongs into its only importer.
func tooSmall(packages map[string]*source) (wrong []string) {
	for folder, s := range packages {
		if s.files == 0 || s.lines >= smallest || s.program || len(s.importers) != 1 || strings.Contains(strings.Join(strings.Fields(s.doc), " "), ownReason) {
			continue
		}
		importer := slices.Collect(maps.Keys(s.importers))[0]
		wrong = append(
			wrong,
			fmt.Sprintf("%s has %d lines, and only %s imports it: move it there, or say in its doc comment why it is a %s", folder, s.lines, importer, ownReason),
		)
	}
	return wrong
}

// TestPackages_Sizes_WithinLimits judges each package of the module.
func TestPackages_Sizes_WithinLimits(t *testing.T) {
	packages := sources(t)
	if len(packages) < 200 {
		t.Errorf("only %d packages were found", len(packages))
	}
	for _, wrong := range slices.Sorted(slices.Values(append(tooLarge(packages, larger), tooSmall(packages)...))) {
		t.Error(wrong)
	}
}

// TestSizes_EachVerdict_Judged has a package for each verdict.
func TestSizes_EachVerdict_Judged(t *testing.T) {
	one := map[string]bool{"a": true}
	packages := map[string]*source{
		"fits": {size: largest}, "files": {size: size{16, 1}}, "lines": {size: size{1, 2501}},
		"allowed": {size: size{17, 2600}}, "grown": {size: size{17, 2601}}, "shrunk": {size: largest},
	}
	got := tooLarge(packages, map[string]size{"allowed": {17, 2600}, "grown": {17, 2600}, "shrunk": {17, 2600}, "gone": {17, 2600}})
	if want := []string{"files", "gone", "grown", "lines", "shrunk"}; !slices.Equal(named(got), want) {
		t.Errorf("too large are %q, want %v", got, want)
	}
	few := size{1, smallest - 1}
	got = tooSmall(map[string]*source{
		"small": {size: few, importers: one}, "reason": {size: few, importers: one, doc: "It is a package\nof its own, because"},
		"tests": {size: few}, "shared": {size: few, importers: map[string]bool{"a": true, "b": true}},
		"program": {size: few, importers: one, program: true}, "enough": {size: size{1, smallest}, importers: one},
	})
	if want := []string{"small"}; !slices.Equal(named(got), want) {
		t.Errorf("too small are %q, want %v", got, want)
	}
}

// named returns the first words of findings, sorted.
func named(findings []string) (words []string) {
	for _, finding := range findings {
		word, _, _ := strings.Cut(finding, " ")
		words = append(words, word)
	}
	slices.Sort(words)
	return words
}
