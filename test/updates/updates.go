// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package updates

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"github.com/alioth-net/alioth/test/api/trust/reads"
)

// Update is a place in the source that writes a whole object.
type Update struct {
	// Place is the file and line.
	Place string
	// Kind is the Go type of the object; "" where the source leaves it open.
	Kind string
}

// methods write whole objects. Each client of the API server has some of them.
var methods = []string{"Update", "UpdateStatus"}

// Of returns the places where a program writes whole objects, by file. A function that hands its
// own object on does not count if it is such a method itself. Its callers count.
func Of(p *reads.Program) []Update {
	var list []Update
	for pkg := range p.Packages() {
		for _, file := range pkg.Files {
			for _, declared := range file.Decls {
				if fn, ok := declared.(*ast.FuncDecl); ok && fn.Body != nil {
					list = append(list, (&scan{program: p, pkg: pkg, fn: fn}).places()...)
				}
			}
		}
	}
	slices.SortFunc(
		list,
		func(a, b Update) int { return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Kind, b.Kind)) },
	)
	return list
}

// scan reads one function.
type scan struct {
	program *reads.Program
	pkg     reads.Package
	fn      *ast.FuncDecl
	// called are the selectors that are called where they are.
	called map[*ast.SelectorExpr]bool
	list   []Update
}

func (s *scan) places() []Update {
	s.called = map[*ast.SelectorExpr]bool{}
	ast.Inspect(s.fn.Body, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok {
			s.call(call)
		}
		return true
	})
	// A method that is handed on as a value may be called with anything.
	ast.Inspect(s.fn.Body, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok && !s.called[selector] && s.writesObjects(selector) {
			s.add(selector.Pos(), "")
		}
		return true
	})
	return s.list
}

func (s *scan) call(call *ast.CallExpr) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) < 2 || !s.writesObjects(selector) {
		return
	}
	s.called[selector] = true
	object := call.Args[1]
	if slices.Contains(methods, s.fn.Name.Name) && s.isParameter(object) {
		return
	}
	s.add(call.Pos(), kindOf(s.pkg.Info.TypeOf(object)))
}

func (s *scan) add(at token.Pos, kind string) {
	s.list = append(s.list, Update{s.program.Place(at), kind})
}

// writesObjects reports whether a selector is a method that takes a context and a whole object.
func (s *scan) writesObjects(selector *ast.SelectorExpr) bool {
	method, ok := s.pkg.Info.Uses[selector.Sel].(*types.Func)
	if !ok || !slices.Contains(methods, method.Name()) {
		return false
	}
	params := method.Signature().Params()
	return params.Len() > 1 && types.TypeString(params.At(0).Type(), nil) == "context.Context" &&
		isObject(params.At(1).Type())
}

// isObject reports whether a type has the metadata of an object of the API.
func isObject(t types.Type) bool {
	method, _, _ := types.LookupFieldOrMethod(t, true, nil, "GetResourceVersion")
	_, ok := method.(*types.Func)
	return ok
}

// isParameter reports whether an expression is a parameter of the function.
func (s *scan) isParameter(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	if !ok {
		return false
	}
	for _, list := range s.fn.Type.Params.List {
		for _, param := range list.Names {
			if s.pkg.Info.Defs[param] == s.pkg.Info.Uses[name] {
				return true
			}
		}
	}
	return false
}

// kindOf returns the name of the type of an object, with the last part of its package's path;
// "" for an interface.
func kindOf(t types.Type) string {
	pointer, ok := types.Unalias(t).(*types.Pointer)
	if !ok {
		return ""
	}
	named, ok := types.Unalias(pointer.Elem()).(*types.Named)
	if !ok {
		return ""
	}
	return named.Obj().Pkg().Name() + "." + named.Obj().Name()
}
