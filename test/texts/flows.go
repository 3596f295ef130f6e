// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package texts

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/test/api/trust/reads"
)

// Rules say whose texts are followed.
type Rules struct {
	// Others are the paths of packages whose structs others fill. A path that ends with a slash
	// stands for all paths below it.
	Others []string
	// Bounded are fields of these structs that the writer of the struct bounds: by package, type
	// and field, such as k8s.io/api/core/v1.PodSpec.NodeName, or package and type for all fields.
	Bounded map[string]bool
	// Rows are the paths of packages with structs whose texts have a bound. Unbounded has the
	// exceptions, by package name, type and field.
	Rows      []string
	Unbounded map[string]string
	// Decoders are functions of the module that fill the struct behind their last argument from
	// a text.
	Decoders []string
	// Stores are the paths of packages of other modules whose results have no text of their
	// arguments, because the arguments are keys.
	Stores []string
	// Cut is the path of the package whose functions cut and quote texts.
	Cut string
}

// flows has the sources of the texts of each variable, field, parameter and result.
type flows struct {
	rules   Rules
	from    map[types.Object][]types.Object
	foreign map[types.Object]bool
	// methods are the methods of the module by name: an interface may call them.
	methods map[string][]*types.Func
	owners  map[*types.Var]string
	sinks   []sink
}

// sink is one argument of a function that formats a message.
type sink struct {
	pos   token.Pos
	verb  string
	text  string
	roots []types.Object
	typed types.Type
}

// reader is one package on the way through its syntax.
type reader struct {
	*flows
	pkg     reads.Package
	results []*types.Tuple
}

func (r *reader) read(n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		fn, _ := r.pkg.Info.Defs[n.Name].(*types.Func)
		r.body(n.Body, fn.Signature().Results())
	case *ast.File, *ast.GenDecl:
		r.inspect(n)
	}
}

func (r *reader) body(body *ast.BlockStmt, results *types.Tuple) {
	if body == nil {
		return
	}
	r.results = append(r.results, results)
	r.inspect(body)
	r.results = r.results[:len(r.results)-1]
}

func (r *reader) inspect(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			r.read(n)
			return false
		case *ast.FuncLit:
			r.body(n.Body, r.pkg.Info.TypeOf(n).(*types.Signature).Results())
			return false
		case *ast.AssignStmt:
			r.assign(n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			r.assign(exprs(n.Names), n.Values)
		case *ast.RangeStmt:
			r.flow(r.target(n.Key), n.X)
			r.flow(r.target(n.Value), n.X)
		case *ast.SendStmt:
			r.flow(r.target(n.Chan), n.Value)
		case *ast.TypeSwitchStmt:
			r.typeSwitch(n)
		case *ast.ReturnStmt:
			r.returns(n)
		case *ast.CompositeLit:
			r.literal(n)
		case *ast.CallExpr:
			r.call(n)
		case *ast.BinaryExpr:
			r.joined(n)
		}
		return true
	})
}

// joined notes a text that a message gets by an addition. A constant with a blank is a part of
// a message.
func (r *reader) joined(n *ast.BinaryExpr) {
	if n.Op != token.ADD {
		return
	}
	for _, pair := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
		value := r.pkg.Info.Types[pair[0]].Value
		if value != nil && value.Kind() == constant.String && strings.Contains(constant.StringVal(value), " ") {
			r.sink("+", pair[1])
		}
	}
}

func exprs(names []*ast.Ident) (list []ast.Expr) {
	for _, name := range names {
		list = append(list, name)
	}
	return list
}

func (r *reader) assign(left, right []ast.Expr) {
	for i, to := range left {
		switch {
		case len(left) == len(right):
			r.flow(r.target(to), right[i])
		case len(right) == 1:
			if call, ok := ast.Unparen(right[0]).(*ast.CallExpr); ok {
				r.link(r.target(to), r.resultOf(call, i))
			} else {
				r.flow(r.target(to), right[0])
			}
		}
	}
}

func (r *reader) typeSwitch(n *ast.TypeSwitchStmt) {
	assign, ok := n.Assign.(*ast.AssignStmt)
	if !ok {
		return
	}
	for _, clause := range n.Body.List {
		r.flow(r.pkg.Info.Implicits[clause], assign.Rhs[0])
	}
}

func (r *reader) returns(n *ast.ReturnStmt) {
	results := r.results[len(r.results)-1]
	for i := range results.Len() {
		switch {
		case len(n.Results) == results.Len():
			r.flow(results.At(i), n.Results[i])
		case len(n.Results) == 1:
			if call, ok := ast.Unparen(n.Results[0]).(*ast.CallExpr); ok {
				r.link(results.At(i), r.resultOf(call, i))
			}
		}
	}
}

// literal notes the values that the fields of a struct get.
func (r *reader) literal(n *ast.CompositeLit) {
	st, ok := under(r.pkg.Info.TypeOf(n)).(*types.Struct)
	if !ok {
		return
	}
	for i, element := range n.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				r.flow(r.pkg.Info.Uses[key], pair.Value)
			}
			continue
		}
		r.flow(st.Field(i), element)
	}
}

// target returns the variable or field that an expression on the left side writes.
func (r *reader) target(e ast.Expr) types.Object {
	switch e := e.(type) {
	case *ast.Ident:
		return r.pkg.Info.ObjectOf(e)
	case *ast.SelectorExpr:
		return r.pkg.Info.Uses[e.Sel]
	case *ast.IndexExpr:
		return r.target(e.X)
	case *ast.StarExpr:
		return r.target(e.X)
	case *ast.ParenExpr:
		return r.target(e.X)
	}
	return nil
}

func (r *reader) flow(to types.Object, e ast.Expr) {
	if to != nil && e != nil {
		r.link(to, r.roots(e))
	}
}

func (f *flows) link(to types.Object, from []types.Object) {
	if to == nil || inert(to.Type()) {
		return
	}
	f.from[origin(to)] = append(f.from[origin(to)], from...)
}

func origin(object types.Object) types.Object {
	switch object := object.(type) {
	case *types.Var:
		return object.Origin()
	case *types.Func:
		return object.Origin()
	}
	return object
}

// roots returns the variables, fields and results whose texts an expression may have.
func (r *reader) roots(e ast.Expr) []types.Object {
	if t := r.pkg.Info.TypeOf(e); t != nil && inert(t) {
		return nil
	}
	switch e := e.(type) {
	case *ast.Ident:
		return r.variable(r.pkg.Info.ObjectOf(e))
	case *ast.SelectorExpr:
		return r.variable(r.pkg.Info.Uses[e.Sel])
	case *ast.ParenExpr:
		return r.roots(e.X)
	case *ast.StarExpr:
		return r.roots(e.X)
	case *ast.UnaryExpr:
		return r.roots(e.X)
	case *ast.IndexExpr:
		return r.roots(e.X)
	case *ast.SliceExpr:
		return r.roots(e.X)
	case *ast.TypeAssertExpr:
		return r.roots(e.X)
	case *ast.BinaryExpr:
		return append(r.roots(e.X), r.roots(e.Y)...)
	case *ast.CompositeLit:
		return r.elements(e)
	case *ast.CallExpr:
		return r.resultOf(e, 0)
	}
	return nil
}

func (r *reader) variable(object types.Object) []types.Object {
	v, ok := object.(*types.Var)
	if !ok {
		return nil
	}
	v = v.Origin()
	if v.IsField() && isText(v.Type()) && r.isForeign(v) {
		r.foreign[v] = true
	}
	return []types.Object{v}
}

// isForeign reports whether others fill a field with a text that nobody bounds.
func (f *flows) isForeign(v *types.Var) bool {
	if v.Pkg() == nil || !matches(f.rules.Others, v.Pkg().Path()) {
		return false
	}
	owner := f.ownerOf(v)
	return !f.rules.bounds(owner, v.Name())
}

// ownerOf returns the package and name of the type whose field it is.
func (f *flows) ownerOf(v *types.Var) string {
	if name, ok := f.owners[v]; ok {
		return name
	}
	scope := v.Pkg().Scope()
	for _, name := range scope.Names() {
		typed, ok := scope.Lookup(name).(*types.TypeName)
		if !ok {
			continue
		}
		if st, ok := typed.Type().Underlying().(*types.Struct); ok {
			for field := range st.Fields() {
				f.owners[field] = v.Pkg().Path() + "." + name
			}
		}
	}
	return f.owners[v]
}

func matches(paths []string, path string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		return p == path || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p)
	})
}

func (r *reader) elements(e *ast.CompositeLit) (list []types.Object) {
	if _, ok := under(r.pkg.Info.TypeOf(e)).(*types.Struct); ok {
		return nil // its fields are followed
	}
	for _, element := range e.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			list = append(list, r.roots(pair.Key)...)
			element = pair.Value
		}
		list = append(list, r.roots(element)...)
	}
	return list
}

// inert reports whether a type has no text of others: numbers, and types that are formatted
// in few bytes.
func inert(t types.Type) bool {
	switch at := types.Unalias(t).(type) {
	case *types.Basic:
		return at.Info()&types.IsString == 0 && at.Kind() != types.UntypedNil
	case *types.Named:
		if pkg := at.Obj().Pkg(); pkg != nil && slices.Contains([]string{"net/netip", "time", "k8s.io/apimachinery/pkg/api/resource", "context", "log/slog"}, pkg.Path()) {
			return true
		}
		if basic, ok := at.Underlying().(*types.Basic); ok {
			return inert(basic)
		}
	case *types.Pointer:
		return inert(at.Elem())
	case *types.Slice:
		return inert(at.Elem()) && !isByte(at.Elem())
	case *types.Array:
		return inert(at.Elem())
	case *types.Map:
		return inert(at.Key()) && inert(at.Elem())
	case *types.Signature:
		return true
	}
	return false
}

// isText reports whether a type is a text, a list of texts or a map of them.
func isText(t types.Type) bool {
	switch at := t.Underlying().(type) {
	case *types.Basic:
		return at.Info()&types.IsString != 0
	case *types.Pointer:
		return isText(at.Elem())
	case *types.Slice:
		return isText(at.Elem()) || isByte(at.Elem())
	case *types.Map:
		return isText(at.Key()) || isText(at.Elem())
	}
	return false
}

func isByte(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Kind() == types.Byte
}

// under returns the type below names and pointers.
func under(t types.Type) types.Type {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		return pointer.Elem().Underlying()
	}
	return t.Underlying()
}
