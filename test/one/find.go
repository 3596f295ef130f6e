// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/test/tree"
)

// step is a target of the Makefile with the packages that it tests. A pattern that begins with a
// hyphen takes packages out.
type step struct {
	name     string
	patterns []string
}

func parseSteps(texts []string) (steps []step, err error) {
	for _, text := range texts {
		name, patterns, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--step %q: want STEP=PACKAGES", text)
		}
		steps = append(steps, step{name: name, patterns: strings.Fields(patterns)})
	}
	if len(steps) == 0 {
		return nil, errors.New("no --step names the packages of a step")
	}
	return steps, nil
}

// stepOf returns the first step that has a package.
func stepOf(steps []step, path string) (string, error) {
	for _, s := range steps {
		if s.has(path) {
			return s.name, nil
		}
	}
	return "", fmt.Errorf(
		"no step of the Makefile runs the tests of %s: add it to the variable PACKAGES_<step> of one",
		path,
	)
}

func (s step) has(path string) (has bool) {
	for _, pattern := range s.patterns {
		without, out := strings.CutPrefix(pattern, "-")
		if out && tree.Matches(without, path) {
			return false
		}
		has = has || !out && tree.Matches(pattern, path)
	}
	return has
}

// downOf is the command that takes down the lab of a step, or "" for a step without a lab that
// stays. A test compares it with the Makefile.
func downOf(step string) string {
	switch step {
	case "test-scenes", "test-faults", "test-upgrade", "test-roles", "test-demo":
		return "make down"
	case "test-hardware":
		return "make down-hardware"
	}
	return ""
}

// expression returns the expression for `go test -run` that matches a test alone.
func expression(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// find returns the package of a test, as "./a/b". only selects one of several packages.
func find(files fs.FS, name, only string) (string, error) {
	name, _, _ = strings.Cut(name, "/")
	all, err := packagesOf(files, name)
	if err != nil {
		return "", err
	}
	if only != "" {
		only = "./" + path.Clean(only)
		if !slices.Contains(all, only) {
			return "", fmt.Errorf("package %s has no test %s; these have one: %s", only, name, strings.Join(all, " "))
		}
		return only, nil
	}
	switch len(all) {
	case 0:
		return "", fmt.Errorf(
			"no package has a test %s; names are case-sensitive, and subtests follow their test after a slash",
			name,
		)
	case 1:
		return all[0], nil
	}
	return "", fmt.Errorf("%d packages have a test %s; set PACKAGE to one of: %s", len(all), name, strings.Join(all, " "))
}

// packagesOf returns the packages whose tests have a name. It leaves out folders with a
// go.mod of their own, because these are other modules.
func packagesOf(files fs.FS, name string) (found []string, err error) {
	begin := []byte("\nfunc " + name + "(t *testing.T)")
	err = fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return tree.Enter(files, file, entry)
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(files, file)
		if at := "./" + path.Dir(file); bytes.Contains(text, begin) && !slices.Contains(found, at) {
			found = append(found, at)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for test %s: %w", name, err)
	}
	return found, nil
}
