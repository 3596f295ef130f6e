// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// testsIn returns the names of the tests in a folder's files that match a pattern,
// sorted. A pattern that no file matches is an error: its files have moved.
func testsIn(folder string, patterns ...string) ([]string, error) {
	var names []string
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, fmt.Errorf("find tests: %w", err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("no file of %s is called %s: see test/vm/suite.go", folder, pattern)
		}
		for _, file := range files {
			found, err := testsOf(file)
			if err != nil {
				return nil, err
			}
			names = append(names, found...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func testsOf(file string) (names []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("find tests: %w", err)
	}
	for _, decl := range parsed.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// Omission is a choice of tests that `make test` leaves out on some kernels, because
// other runs of the same tests cover them. `make soak` runs them on every kernel.
type Omission struct {
	// Kernels are series of Kernels.
	Kernels []string
	// Files are patterns of the package's files with these tests.
	Files []string
	// Reason names the runs that cover the tests, and why these suffice.
	Reason string
}

// findOmitted finds the tests that the omissions leave out, by the series of the kernel.
func (p *program) findOmitted(omissions []Omission) error {
	if len(omissions) == 0 {
		return nil
	}
	all, err := testsIn(p.folder, everything)
	if err != nil {
		return err
	}
	p.tests, p.omitted = len(all), map[string][]string{}
	for _, omission := range omissions {
		tests, err := testsIn(p.folder, omission.Files...)
		if err != nil {
			return err
		}
		for _, series := range omission.Kernels {
			both := slices.Concat(p.omitted[series], tests)
			slices.Sort(both)
			p.omitted[series] = slices.Compact(both)
		}
	}
	return nil
}
