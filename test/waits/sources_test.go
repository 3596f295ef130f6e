// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package waits_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// longest is the longest limit that needs no factor: waits for an event that must not come are
// shorter.
const longest = 5 * time.Second

// idles is a test about a minute without any event.
const idles = "cnid/nmstate/handler/figures_test.go"

// TestSources_BareLimits_Absent finds limits in tests, and in the packages that only tests use,
// that would be too short on a slow machine: numbers, and constants of the same package. Tests with
// a clock of their own (synctest) wait for no machine.
func TestSources_BareLimits_Absent(t *testing.T) {
	root := filepath.Join("..", "..")
	folders := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".go" {
			folders[filepath.Dir(path)] = append(folders[filepath.Dir(path)], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		files += checkFolder(t, folders[folder])
	}
	if files < 100 {
		t.Errorf("looked at %d files of tests alone", files)
	}
}

// checkFolder reports the bare limits in the tests of a folder, and returns how many files it
// has looked at.
func checkFolder(t *testing.T, paths []string) (files int) {
	t.Helper()
	set, parsed := token.NewFileSet(), map[string]*ast.File{}
	known := map[string]time.Duration{}
	for _, path := range paths {
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed[path] = file
		maps.Copy(known, constantsOf(file))
	}
	for path, file := range parsed {
		if !ofTests(path, file) {
			continue
		}
		files++
		for _, limit := range bareLimits(file, known) {
			t.Errorf("%s: a limit that the machine does not multiply: use package test/waits", set.Position(limit))
		}
	}
	return files
}

// ofTests reports whether a file waits for the machine in tests: files in packages of tests, files
// that name package testing, and files of the lab.
func ofTests(path string, file *ast.File) bool {
	if strings.HasSuffix(path, idles) || imports(file, "testing/synctest") {
		return false
	}
	return strings.HasSuffix(path, "_test.go") || imports(file, "testing") || strings.Contains(path, "/test/cluster/") ||
		strings.Contains(path, "/test/api/")
}

func imports(file *ast.File, path string) bool {
	return slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == strconv.Quote(path) })
}

// bareLimits returns where a file waits for longest or longer with a limit of its own.
func bareLimits(file *ast.File, known map[string]time.Duration) (found []token.Pos) {
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		limit := limitOf(call)
		if length, ok := durationOf(limit, known); ok && length >= longest && waitsFor(call.Fun) {
			found = append(found, limit.Pos())
		}
		return true
	})
	return found
}

// limitOf returns the argument of a call that may be a limit: the last one, but for a poll.
func limitOf(call *ast.CallExpr) ast.Expr {
	if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == poll && len(call.Args) == 5 {
		return call.Args[2]
	}
	return call.Args[len(call.Args)-1]
}

// poll is a function of package wait of Kubernetes.
const poll = "PollUntilContextTimeout"

// waitsFor reports whether the last argument of a function is a limit.
func waitsFor(function ast.Expr) bool {
	selector, ok := function.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch of := selector.X.(type) {
	case *ast.Ident:
		name := of.Name + "." + selector.Sel.Name
		return slices.Contains([]string{"context.WithTimeout", "time.After", "time.AfterFunc", "time.NewTimer", "wait." + poll}, name)
	case *ast.CallExpr: // time.Now().Add
		now, ok := of.Fun.(*ast.SelectorExpr)
		return ok && now.Sel.Name == "Now" && selector.Sel.Name == "Add"
	}
	return false
}

// constantsOf returns the durations among the constants and variables of a file, also those
// inside functions.
func constantsOf(file *ast.File) map[string]time.Duration {
	all := map[string]time.Duration{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
			for i, name := range spec.Names {
				if length, ok := durationOf(spec.Values[i], nil); ok {
					all[name.Name] = length
				}
			}
		}
		return true
	})
	return all
}

var units = map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour, "Millisecond": time.Millisecond}

// durationOf returns the value of a number, a unit of package time, a known name, or a product
// of them.
func durationOf(value ast.Expr, known map[string]time.Duration) (time.Duration, bool) {
	switch v := value.(type) {
	case *ast.ParenExpr:
		return durationOf(v.X, known)
	case *ast.Ident:
		length, ok := known[v.Name]
		return length, ok
	case *ast.SelectorExpr:
		length, ok := units[v.Sel.Name]
		return length, ok && fmt.Sprint(v.X) == "time"
	case *ast.BasicLit:
		n, exact := constant.Int64Val(constant.ToInt(constant.MakeFromLiteral(v.Value, v.Kind, 0)))
		return time.Duration(n), exact && v.Kind == token.INT
	case *ast.BinaryExpr:
		x, one := durationOf(v.X, known)
		y, other := durationOf(v.Y, known)
		return x * y, one && other && v.Op == token.MUL
	}
	return 0, false
}

func TestBareLimits_EachForm_Found(t *testing.T) {
	for text, want := range map[string]int{
		"context.WithTimeout(ctx, 30*time.Second)":                    1,
		"context.WithTimeout(context.Background(), time.Minute)":      1,
		"context.WithTimeout(ctx, patience)":                          1,
		"context.WithTimeout(ctx, 2*patience)":                        1,
		"time.Now().Add(patience)":                                    1,
		"wait.PollUntilContextTimeout(ctx, short, patience, true, f)": 1,
		"time.After(5 * time.Second)":                                 1,
		"time.After(4 * time.Second)":                                 0,
		"time.After(short)":                                           0,
		"time.After(waits.Limit(patience))":                           0,
		"context.WithTimeout(ctx, waits.Limit(2*time.Minute))":        0,
		"waits.Until(t, patience, \"\", func() error { return nil })": 0,
	} {
		source := "package p\nconst patience, short = 10 * time.Second, 100 * time.Millisecond\nvar _ = " + text
		file, err := parser.ParseFile(token.NewFileSet(), "p_test.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(bareLimits(file, constantsOf(file))); got != want {
			t.Errorf("%s: found %d limits, want %d", text, got, want)
		}
	}
}
