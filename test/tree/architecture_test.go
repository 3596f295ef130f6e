// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// product are the folders whose packages ARCHITECTURE.md lists without exception; of tests it
// lists the folders below test.
var product = []string{"api", "cmd", "cnid", "ebpf", "operator", "store"}

var (
	quoted = regexp.MustCompile("`([^`\\s]+)`")
	// hole is a part of a path that the reader fills in.
	hole = regexp.MustCompile(`<[a-z]+>`)
)

// expand returns the words that one with braces stands for, as in a shell.
func expand(word string) []string {
	before, rest, open := strings.Cut(word, "{")
	inside, after, closed := strings.Cut(rest, "}")
	if !open || !closed {
		return []string{word}
	}
	var all []string
	for _, choice := range strings.Split(inside, ",") {
		all = append(all, expand(before+choice+after)...)
	}
	return all
}

// words returns the names in each line of a page: quoted words and, in blocks of code, all words.
func words(page string) (lines [][]string) {
	code := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			code = !code
			continue
		}
		var found []string
		if code {
			found = strings.Fields(line)
		}
		for _, match := range quoted.FindAllStringSubmatch(line, -1) {
			found = append(found, match[1])
		}
		var all []string
		for _, word := range found {
			all = append(all, expand(word)...)
		}
		lines = append(lines, all)
	}
	return lines
}

func architecture(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	return words(string(text))
}

// TestArchitecture_Paths_Exist has recipes and tables among them. A path with a part that the
// reader fills in, such as <kind>, has at least one example in the tree.
func TestArchitecture_Paths_Exist(t *testing.T) {
	tops, err := filepath.Glob(filepath.Join(root, "*/"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, line := range architecture(t) {
		for _, word := range line {
			top, below, _ := strings.Cut(word, "/")
			if below == "" || !slices.Contains(tops, filepath.Join(root, top)) {
				continue
			}
			checked++
			found, err := filepath.Glob(filepath.Join(root, hole.ReplaceAllString(strings.ReplaceAll(word, "...", "*"), "*")))
			if err != nil || len(found) == 0 {
				t.Errorf("ARCHITECTURE.md names %s, which does not exist (%v): write its new place, or remove it", word, err)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d paths were checked", checked)
	}
}

// TestArchitecture_EachPackage_Named: by its path, or by its last word in a line that names a
// folder above it or a neighbour.
func TestArchitecture_EachPackage_Named(t *testing.T) {
	lines := architecture(t)
	for _, folder := range append(packages(t, product...), folders(t, "test")...) {
		if helper(folder) {
			continue
		}
		if !slices.ContainsFunc(lines, func(line []string) bool { return names(line, folder) }) {
			t.Errorf("ARCHITECTURE.md does not name %s: add it to the table of its area", folder)
		}
	}
}

// names reports whether a line names a package.
func names(line []string, folder string) bool {
	if slices.Contains(line, folder) {
		return true
	}
	if !slices.ContainsFunc(line, func(word string) bool { return path.Base(word) == path.Base(folder) }) {
		return false
	}
	return slices.ContainsFunc(line, func(word string) bool {
		return strings.Contains(word, "/") && (strings.HasPrefix(folder, word+"/") || path.Dir(word) == path.Dir(folder))
	})
}

// helper reports whether a package is a part of tests of the package above it.
func helper(folder string) bool {
	return strings.HasSuffix(folder, "test") && folder != "test" || strings.Contains(folder, "/internal/")
}

// packages returns the folders below others that have Go files beside tests.
func packages(t *testing.T, tops ...string) (found []string) {
	t.Helper()
	for _, top := range tops {
		err := fs.WalkDir(os.DirFS(root), top, func(file string, entry fs.DirEntry, err error) error {
			dir := path.Dir(file)
			if err == nil && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "/testdata/") &&
				!slices.Contains(found, dir) {
				found = append(found, dir)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// folders returns the folders in one.
func folders(t *testing.T, top string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, top))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			found = append(found, path.Join(top, entry.Name()))
		}
	}
	return found
}
