// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Package is a package of the repository, without its tests.
type Package struct {
	// Folder is its place below the root of the repository.
	Folder string
	// Imports are its imports, sorted.
	Imports []string
	// Files and Lines count its files that are neither tests nor generated.
	Files, Lines int
}

// Packages returns all packages below the root of the repository.
func Packages(root string) ([]Package, error) {
	found := map[string]*Package{}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && file != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		folder := path.Dir(file)
		if found[folder] == nil {
			found[folder] = &Package{Folder: folder}
		}
		return found[folder].add(filepath.Join(root, file))
	})
	var list []Package
	for _, p := range found {
		slices.Sort(p.Imports)
		p.Imports = slices.Compact(p.Imports)
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Package) int { return strings.Compare(a.Folder, b.Folder) })
	return list, err
}

// add adds a file to its package.
func (p *Package) add(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
	if err != nil {
		return err
	}
	for _, one := range parsed.Imports {
		imported, err := strconv.Unquote(one.Path.Value)
		if err != nil {
			return err
		}
		p.Imports = append(p.Imports, imported)
	}
	if !generated(string(text)) {
		p.Files++
		p.Lines += strings.Count(string(text), "\n")
	}
	return nil
}

// generated reports whether a file says that a program wrote it
// (https://go.dev/s/generatedcode).
func generated(text string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "// Code generated ") && strings.HasSuffix(strings.TrimSpace(line), " DO NOT EDIT.") {
			return true
		}
		if strings.HasPrefix(line, "package ") {
			return false
		}
	}
	return false
}
