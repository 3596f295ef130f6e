// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package marked finds the tests that `make soak` runs: those that call a function of test/soak,
// themselves or through other functions. It reads the source, and builds nothing.
package marked

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/test/tree"
)

// Test is a test that make soak runs.
type Test struct {
	// Package is the path of the test's package, as "./a/b".
	Package, Name string
	// Part is the target of make that runs the test alone, or "" (soak.Part).
	Part string
}

// ErrNone is the error of a selection without a test.
var ErrNone = errors.New("no test of these packages calls a function of test/soak")

// Find returns the marked tests of a module, in the order of their packages and names. A call of
// the marker that no test reaches is an error.
func Find(files fs.FS) ([]Test, error) {
	g, err := read(files)
	if err != nil {
		return nil, err
	}
	var list []Test
	for id := range g.reach(g.calls...) {
		list = append(list, g.tests[id]...)
	}
	slices.SortFunc(list, func(a, b Test) int {
		return strings.Compare(a.Package+" "+a.Name, b.Package+" "+b.Name)
	})
	for _, call := range g.calls {
		if !g.reachesTest(call) {
			err = errors.Join(err, fmt.Errorf("%s calls a function of test/soak, and no test reaches it", call))
		}
	}
	return slices.Compact(list), err
}

// Select returns the tests of a part in some packages, in the order of the patterns.
func Select(tests []Test, part string, with, without []string) (selected []Test) {
	for _, pattern := range with {
		for _, t := range tests {
			out := slices.ContainsFunc(without, func(p string) bool { return tree.Matches(p, t.Package) })
			if t.Part == part && !out && tree.Matches(pattern, t.Package) && !slices.Contains(selected, t) {
				selected = append(selected, t)
			}
		}
	}
	return selected
}

// Arguments returns the arguments of go test that run tests.
func Arguments(tests []Test) (arguments []string, err error) {
	if len(tests) == 0 {
		return nil, ErrNone
	}
	arguments = []string{"-run", Pattern(tests)}
	for _, t := range tests {
		if !slices.Contains(arguments, t.Package) {
			arguments = append(arguments, t.Package)
		}
	}
	return arguments, nil
}

// Pattern returns the expression of `go test -run` for tests.
func Pattern(tests []Test) string {
	var names []string
	for _, t := range tests {
		names = append(names, regexp.QuoteMeta(t.Name))
	}
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$"
}
