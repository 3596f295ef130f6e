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

// findAlike finds a program's tests of what kernels do in one way.
func (p *program) findAlike(patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	all, err := testsIn(p.folder, everything)
	if err != nil {
		return err
	}
	if p.alike, err = testsIn(p.folder, patterns...); err != nil {
		return err
	}
	p.allAlike = len(p.alike) == len(all)
	return nil
}
