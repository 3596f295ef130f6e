// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reads

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// metaPackage has the metadata that all kinds have.
const metaPackage = "k8s.io/apimachinery/pkg/apis/meta/v1"

// Rules say which parts of a program are the API.
type Rules struct {
	// API are the paths of packages with API types; a path that ends with a slash stands for
	// all below it.
	API []string
	// Carriers are functions of other modules that only carry objects between the program and the
	// API server, copy them, or hand them to functions of the program, by their full names in
	// go/types. A name that ends with * stands for all names with this beginning.
	Carriers []string
	// Generic has, by the path of a file or of a folder that ends with a slash, the names of the
	// kinds that functions for objects of any kind get there.
	Generic map[string][]string
}

// scan has the selections of the source.
type scan struct {
	program *Program
	rules   Rules
	// used are fields whose value is used, with one place; reached are the fields on the way to
	// others.
	used    map[*types.Var]token.Pos
	reached map[*types.Var]bool
	// whole are structs that code of other modules gets.
	whole map[*types.Struct]token.Pos
	// kinds are the types of objects that the program names.
	kinds map[*types.TypeName]bool
	// opaque are calls of other modules with an object of unknown kind.
	opaque map[Opaque]bool
	values values
}

// holder is a kind by the struct of its type, or an interface that kinds implement.
type holder struct{ types.Type }

// file is one file during the descent, with the nodes above the present one.
type file struct {
	*scan
	info  *types.Info
	above []ast.Node
}

func (s *scan) file(info *types.Info, f *ast.File) {
	in := &file{scan: s, info: info}
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			in.above = in.above[:len(in.above)-1]
			return true
		}
		in.visit(n)
		in.above = append(in.above, n)
		return true
	})
}

func (f *file) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		f.selector(n)
		f.text(n)
	case *ast.Ident:
		switch object := f.info.Uses[n].(type) {
		case *types.TypeName:
			f.named(object)
		case *types.Func:
			f.mentioned(n, object.Origin())
		}
		f.text(n)
	case *ast.CallExpr:
		f.call(n)
		f.text(n)
	case *ast.BinaryExpr:
		if n.Op == token.EQL || n.Op == token.NEQ {
			f.compared(n)
		}
	case *ast.AssignStmt, *ast.ValueSpec, *ast.ReturnStmt:
		f.bind(n)
	}
}

// compared notes that structs are compared; of pointers that is not the fields.
func (f *file) compared(n *ast.BinaryExpr) {
	if t := f.info.TypeOf(n.X); !isPointer(t) {
		f.handedOut(t, n.Pos())
	}
}

// named notes a kind that the program has a type of.
func (f *file) named(name *types.TypeName) {
	if st, ok := name.Type().Underlying().(*types.Struct); ok && f.isAPI(name.Pkg()) && isKind(st) {
		f.kinds[name] = true
	}
}

func (f *file) selector(n *ast.SelectorExpr) {
	selection := f.info.Selections[n]
	switch {
	case selection == nil:
	case selection.Kind() == types.FieldVal:
		f.field(n, selection)
	default:
		f.method(n, selection)
	}
}

// field notes the fields of one selection, also embedded fields that it passes through.
func (f *file) field(n *ast.SelectorExpr, selection *types.Selection) {
	at, above := selection.Recv(), f.holderOf(n.X)
	for i, index := range selection.Index() {
		name, st := structOf(at)
		if st == nil {
			return
		}
		field := st.Field(index)
		last := i == len(selection.Index())-1
		if name != nil && f.isAPI(name.Pkg()) {
			f.step(n, name, field, above, last)
		}
		if isMeta(field.Type()) {
			above = holder{st}
		}
		at = field.Type()
	}
}

func (f *file) step(n *ast.SelectorExpr, of *types.TypeName, field *types.Var, above holder, last bool) {
	how := f.fate(n)
	if !last {
		how = passed
	}
	if isMeta(of.Type()) {
		if how == used && above.Type != nil && !hasKeys(field.Name()) {
			f.values.lookups = append(f.values.lookups, lookup{origin: origin{of: above}, field: field.Name(), pos: n.Pos()})
		}
		return
	}
	field = field.Origin()
	switch how {
	case used:
		f.used[field] = n.Pos()
	case passed:
		f.reached[field] = true
	}
}

// holderOf returns the kind whose metadata an expression is, if it is metadata.
func (f *file) holderOf(e ast.Expr) holder {
	e = ast.Unparen(e)
	if address, ok := e.(*ast.UnaryExpr); ok {
		e = address.X
	}
	if selector, ok := e.(*ast.SelectorExpr); ok && isMeta(f.info.TypeOf(e)) {
		if _, st := structOf(f.info.TypeOf(selector.X)); st != nil {
			return holder{st}
		}
	}
	return holder{}
}

// fate is the further use of a value.
type fate int

const (
	used fate = iota
	passed
	written
)

// fate returns the use that the nodes above make of the value of a field. The fields of a struct
// are found where they are selected, wherever the struct goes inside the module.
func (f *file) fate(n ast.Expr) fate {
	below := ast.Node(n)
	for _, above := range slices.Backward(f.above) {
		switch above := above.(type) {
		case *ast.ParenExpr, *ast.StarExpr:
		case *ast.IndexExpr:
			if above.X != below {
				return f.useOf(n)
			}
		case *ast.SelectorExpr:
			if s := f.info.Selections[above]; s != nil && s.Kind() == types.FieldVal {
				return passed
			}
			return f.useOf(n)
		case *ast.AssignStmt:
			if above.Tok == token.ASSIGN && slices.Contains(above.Lhs, nodeExpr(below)) {
				return written
			}
			return f.useOf(n)
		case *ast.CallExpr:
			if isBuiltin(f.info, above, "delete") && above.Args[0] == below {
				return written
			}
			return f.useOf(n)
		default:
			return f.useOf(n)
		}
		below = above
	}
	return used
}

// useOf returns the fate of a value that is used as a value: a struct of the API is only passed.
func (f *file) useOf(n ast.Expr) fate {
	if name, st := structOf(f.info.TypeOf(n)); st != nil && f.isAPIStruct(name) && !isPointer(f.info.TypeOf(n)) {
		return passed
	}
	return used
}

// method notes the fields that a method of an object returns: metadata, or all of it.
func (f *file) method(n *ast.SelectorExpr, selection *types.Selection) {
	fn, ok := selection.Obj().(*types.Func)
	if !ok || f.program.inModule(fn.Pkg()) || fn.Pkg() == nil {
		return
	}
	if fn.Pkg().Path() == metaPackage {
		field, is := accessors[fn.Name()]
		switch {
		case is && field != "" && !hasKeys(field):
			from, of, _ := f.source(n.X)
			f.values.lookups = append(f.values.lookups, lookup{from: from, origin: of, field: field, pos: n.Pos()})
			return
		case is:
			return
		}
	}
	if !f.carries(fn) {
		f.handedOut(selection.Recv(), n.Pos())
	}
}

// call notes the values that code of another module gets.
func (f *file) call(n *ast.CallExpr) {
	fn := Callee(f.info, n)
	if fn == nil {
		return
	}
	if f.program.inModule(fn.Pkg()) {
		f.bindArguments(fn, n)
		return
	}
	if field := readers[fn.FullName()]; field != "" {
		from, of, _ := f.source(n.Args[0])
		f.values.lookups = append(f.values.lookups, lookup{from: from, origin: of, field: field, pos: n.Pos()})
		return
	}
	if f.carries(fn) {
		return
	}
	for _, argument := range n.Args {
		t := f.info.TypeOf(argument)
		if isObjectInterface(t) {
			f.opaque[Opaque{fn.FullName(), f.program.fileOf(n.Pos())}] = true
			continue
		}
		f.handedOut(t, n.Pos())
	}
}

// handedOut notes that a value is used as a whole.
func (s *scan) handedOut(t types.Type, pos token.Pos) {
	if name, st := structOf(t); st != nil && s.isAPIStruct(name) {
		s.whole[st] = pos
	}
}

// Callee returns the function that is called, nil for conversions, builtins and values.
func Callee(info *types.Info, n *ast.CallExpr) *types.Func {
	fn, _ := info.Uses[NameOf(n)].(*types.Func)
	if fn != nil {
		fn = fn.Origin()
	}
	return fn
}

// NameOf returns the name of a called function without its package or receiver, nil for a
// function without a name.
func NameOf(n *ast.CallExpr) *ast.Ident {
	fun := ast.Unparen(n.Fun)
	switch index := fun.(type) { // of explicit type arguments
	case *ast.IndexExpr:
		fun = index.X
	case *ast.IndexListExpr:
		fun = index.X
	}
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun
	case *ast.SelectorExpr:
		return fun.Sel
	}
	return nil
}

func (s *scan) carries(fn *types.Func) bool {
	name := fn.FullName()
	return slices.ContainsFunc(s.rules.Carriers, func(carrier string) bool {
		start, open := strings.CutSuffix(carrier, "*")
		return open && strings.HasPrefix(name, start) || name == carrier
	})
}

func (s *scan) isAPI(pkg *types.Package) bool {
	return pkg != nil && slices.ContainsFunc(s.rules.API, func(path string) bool {
		return path == pkg.Path() || strings.HasSuffix(path, "/") && strings.HasPrefix(pkg.Path(), path)
	})
}

// isAPIStruct reports whether a type has fields of its own in the API: a time is one text.
func (s *scan) isAPIStruct(name *types.TypeName) bool {
	if name == nil || !s.isAPI(name.Pkg()) {
		return false
	}
	return name.Pkg().Path() != metaPackage ||
		!slices.Contains([]string{"Time", "MicroTime", "Duration", "FieldsV1"}, name.Name())
}

// accessors are the methods of metadata with the field that each reads, "" for none.
var accessors = func() map[string]string {
	names := map[string]string{"GetObjectMeta": "", "GetObjectKind": "", "GroupVersionKind": "", "GetListMeta": ""}
	for _, field := range []string{
		"Name", "Namespace", "UID", "ResourceVersion", "Generation", "Labels", "Annotations", "Finalizers", "OwnerReferences",
		"CreationTimestamp", "DeletionTimestamp", "GenerateName", "SelfLink", "DeletionGracePeriodSeconds", "ManagedFields",
	} {
		names["Get"+field], names["Set"+field] = field, ""
	}
	return names
}()

// hasKeys reports whether a field of metadata is read by its keys.
func hasKeys(field string) bool { return field == "Labels" || field == "Annotations" }

// readers are functions of other modules that read one field of an object's metadata.
var readers = map[string]string{
	metaPackage + ".GetControllerOf":                                                 "OwnerReferences",
	metaPackage + ".GetControllerOfNoCopy":                                           "OwnerReferences",
	metaPackage + ".IsControlledBy":                                                  "OwnerReferences",
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.ContainsFinalizer": "Finalizers",
}

// scanAll scans the whole program.
func scanAll(p *Program, rules Rules) *scan {
	s := &scan{
		program: p, rules: rules,
		used: map[*types.Var]token.Pos{}, reached: map[*types.Var]bool{}, whole: map[*types.Struct]token.Pos{},
		kinds: map[*types.TypeName]bool{}, opaque: map[Opaque]bool{},
		values: values{origins: map[types.Object]map[origin]bool{}},
	}
	for _, pkg := range p.packages {
		kinds := maps.Clone(s.kinds)
		for _, f := range pkg.files {
			s.file(pkg.info, f)
		}
		if s.isAPI(pkg.types) { // it names all kinds of its group
			s.kinds = kinds
		}
	}
	s.values.resolve()
	return s
}
