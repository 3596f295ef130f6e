// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package marked

import (
	"errors"
	"go/ast"
	"slices"
	"strconv"
)

// Marks returns the functions of test/soak that mark the test that calls them.
func Marks() []string { return []string{"Or", "Only", "Also", "Part", "Worlds"} }

// source is a file whose functions are read.
type source struct {
	*graph
	folder string
	// imports has the folders of packages of the module by their names in the file.
	imports map[string]string
}

// uses notes the functions that a function uses.
func (s *source) uses(by function, node ast.Node) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			s.use(by, s.selected(n))
			s.uses(by, n.X)
			return false
		case *ast.Ident:
			s.use(by, function{folder: s.folder, name: n.Name})
		}
		return true
	})
}

func (s *source) use(by, used function) {
	if used.folder != marker {
		s.users[used] = append(s.users[used], by)
		return
	}
	if slices.Contains(Marks(), used.name) && !slices.Contains(s.calls, by) {
		s.calls = append(s.calls, by)
	}
}

// selected returns the function that a selector means: one of an imported package, or a method.
func (s *source) selected(n *ast.SelectorExpr) function {
	if x, ok := n.X.(*ast.Ident); ok && s.imports[x.Name] != "" {
		return function{folder: s.imports[x.Name], name: n.Sel.Name}
	}
	return function{folder: s.folder, name: n.Sel.Name, method: true}
}

// partOf returns the part that a function gives to soak.Part, or "" without a call of it.
func (s *source) partOf(f *ast.FuncDecl) (part string, err error) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || s.selected(selector) != (function{folder: marker, name: "Part"}) {
			return true
		}
		if literal, ok := call.Args[len(call.Args)-1].(*ast.BasicLit); ok {
			part, err = strconv.Unquote(literal.Value)
			return true
		}
		err = errors.New("soak.Part needs the name of the target as a literal")
		return true
	})
	return part, err
}
