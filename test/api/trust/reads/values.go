// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reads

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
)

// values are objects behind interfaces, and the labels and annotations of objects. They go
// through variables, parameters and results until something of them is read.
type values struct {
	// origins are the possible origins of a variable, parameter or function.
	origins map[types.Object]map[origin]bool
	flows   []flow
	lookups []lookup
}

// origin is an object of a kind, or with a field its labels or annotations.
type origin struct {
	of    holder
	field string
}

// flow says that a variable gets the value of another, or an origin.
type flow struct {
	to, from types.Object
	origin   origin
}

// lookup is one use of a value: it reads a field of an object, or a key of labels or
// annotations, "*" for all or any.
type lookup struct {
	from       types.Object
	origin     origin
	field, key string
	pos        token.Pos
}

// resolve follows the flows until no variable gets another origin.
func (v *values) resolve() {
	for changed := true; changed; {
		changed = false
		for _, f := range v.flows {
			for o := range v.of(f.from, f.origin) {
				if !v.origins[f.to][o] {
					if v.origins[f.to] == nil {
						v.origins[f.to] = map[origin]bool{}
					}
					v.origins[f.to][o], changed = true, true
				}
			}
		}
	}
}

func (v *values) of(from types.Object, o origin) map[origin]bool {
	switch {
	case from == nil:
		return map[origin]bool{o: true}
	case len(v.origins[from]) == 0: // it comes from somewhere that is not followed
		return unknown(from.Type())
	}
	return v.origins[from]
}

// unknown returns the kinds that a value of the type may have: for an interface, any kind that
// implements it.
func unknown(t types.Type) map[origin]bool {
	if i, ok := t.Underlying().(*types.Interface); ok {
		return map[origin]bool{{of: holder{i}}: true}
	}
	return nil
}

// source returns where an expression has its objects or texts from, and whether it has any.
func (f *file) source(e ast.Expr) (types.Object, origin, bool) {
	t := f.info.TypeOf(e)
	switch {
	case t == nil:
		return nil, origin{}, false
	case isTexts(t):
		return f.textsOf(e)
	case isObjectInterface(t):
		if name, ok := ast.Unparen(e).(*ast.Ident); ok {
			return f.info.ObjectOf(name), origin{}, true
		}
		return nil, origin{of: holder{t.Underlying()}}, true
	}
	if _, st := structOf(t); st != nil && isKind(st) {
		return nil, origin{of: holder{st}}, true
	}
	return nil, origin{}, false
}

func (f *file) textsOf(e ast.Expr) (types.Object, origin, bool) {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		object := f.info.ObjectOf(e)
		return object, origin{}, object != nil
	case *ast.SelectorExpr:
		return f.selected(e)
	case *ast.CallExpr:
		return f.called(e)
	}
	return nil, origin{}, false
}

func (f *file) selected(e *ast.SelectorExpr) (types.Object, origin, bool) {
	selection := f.info.Selections[e]
	if selection == nil || selection.Kind() != types.FieldVal || !isMetaField(selection) {
		return nil, origin{}, false
	}
	of := f.holderOf(e.X)
	if _, st := structOf(selection.Recv()); st != nil && isKind(st) {
		of = holder{st}
	}
	return nil, origin{of, e.Sel.Name}, of.Type != nil
}

func (f *file) called(e *ast.CallExpr) (types.Object, origin, bool) {
	if f.info.Types[e.Fun].IsType() { // a conversion
		return f.source(e.Args[0])
	}
	fn := Callee(f.info, e)
	if fn == nil {
		return nil, origin{}, false
	}
	if f.program.inModule(fn.Pkg()) && !isAbstract(fn) {
		return fn, origin{}, true
	}
	selector, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr)
	if !ok || f.info.Selections[selector] == nil {
		return nil, origin{}, false
	}
	field := accessors[fn.Name()]
	if !hasKeys(field) {
		return nil, origin{}, false
	}
	_, of, _ := f.source(selector.X)
	if of.of.Type == nil {
		of.of.Type = f.info.TypeOf(selector.X).Underlying()
	}
	return nil, origin{of.of, field}, true
}

// bind notes the values that variables and results get.
func (f *file) bind(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if len(n.Lhs) == len(n.Rhs) {
			for i, left := range n.Lhs {
				if name, ok := left.(*ast.Ident); ok {
					f.flow(f.info.ObjectOf(name), n.Rhs[i])
				}
			}
		}
	case *ast.ValueSpec:
		for i, value := range n.Values {
			if len(n.Names) == len(n.Values) {
				f.flow(f.info.ObjectOf(n.Names[i]), value)
			}
		}
	case *ast.ReturnStmt:
		if fn := f.enclosing(); fn != nil {
			for _, result := range n.Results {
				f.flow(fn, result)
			}
		}
	}
}

// enclosing returns the declared function around, nil inside of a function's literal.
func (f *file) enclosing() types.Object {
	for _, above := range slices.Backward(f.above) {
		switch above := above.(type) {
		case *ast.FuncLit:
			return nil
		case *ast.FuncDecl:
			return f.info.Defs[above.Name]
		}
	}
	return nil
}

func (f *file) bindArguments(fn *types.Func, n *ast.CallExpr) {
	parameters := fn.Signature().Params()
	for i, argument := range n.Args {
		if i < parameters.Len() {
			f.flow(parameters.At(i), argument)
		}
	}
}

// mentioned notes a function whose parameters may get any value: the function is used as a value,
// or is a method that an interface may call.
func (f *file) mentioned(n *ast.Ident, fn *types.Func) {
	if !f.program.inModule(fn.Pkg()) || f.isCalled(n) {
		return
	}
	for parameter := range fn.Signature().Params().Variables() {
		for o := range unknown(parameter.Type()) {
			f.values.flows = append(f.values.flows, flow{to: parameter, origin: o})
		}
	}
}

func (f *file) isCalled(n *ast.Ident) bool {
	below := ast.Node(n)
	for _, above := range slices.Backward(f.above) {
		switch above := above.(type) {
		case *ast.SelectorExpr, *ast.ParenExpr, *ast.IndexExpr, *ast.IndexListExpr:
		case *ast.CallExpr:
			return above.Fun == below
		default:
			return false
		}
		below = above
	}
	return false
}

// isAbstract reports whether a method belongs to an interface.
func isAbstract(fn *types.Func) bool {
	recv := fn.Signature().Recv()
	return recv != nil && types.IsInterface(recv.Type())
}

func (f *file) flow(to types.Object, e ast.Expr) {
	if from, o, ok := f.source(e); ok && to != nil {
		f.values.flows = append(f.values.flows, flow{to, from, o})
	}
}

// text notes a use of labels or annotations.
func (f *file) text(e ast.Expr) {
	if t := f.info.TypeOf(e); t == nil || !isTexts(t) {
		return
	}
	from, o, ok := f.source(e)
	if !ok {
		return
	}
	below := ast.Node(e)
	for _, above := range slices.Backward(f.above) {
		switch at := above.(type) {
		case *ast.ParenExpr:
			below = above
			continue
		case *ast.SelectorExpr:
			if at.Sel == below { // the selector itself is visited, too
				return
			}
		}
		key := f.keyOf(below, above)
		if key != "" {
			f.values.lookups = append(f.values.lookups, lookup{from: from, origin: o, key: key, pos: e.Pos()})
		}
		return
	}
}

// keyOf returns the key that the node above looks up in a map, "*" for all or any, "" where
// the map is written, or only passed on.
func (f *file) keyOf(below, above ast.Node) string {
	switch above := above.(type) {
	case *ast.IndexExpr:
		return f.constantKey(above)
	case *ast.AssignStmt:
		i := slices.IndexFunc(above.Rhs, func(e ast.Expr) bool { return e == below })
		if i >= 0 && len(above.Lhs) == len(above.Rhs) {
			if _, ok := above.Lhs[i].(*ast.Ident); !ok && !f.intoMetadata(above.Lhs[i]) {
				return "*"
			}
		}
		return ""
	case *ast.ValueSpec, *ast.ReturnStmt, *ast.Field:
		return ""
	case *ast.BinaryExpr: // with nil
		return ""
	case *ast.CallExpr:
		return f.argumentKey(below, above)
	}
	return "*"
}

// intoMetadata reports whether an expression is a map of metadata.
func (f *file) intoMetadata(e ast.Expr) bool {
	selector, ok := e.(*ast.SelectorExpr)
	return ok && f.info.Selections[selector] != nil && isMetaField(f.info.Selections[selector])
}

func (f *file) constantKey(index *ast.IndexExpr) string {
	for i := len(f.above) - 1; i > 0; i-- {
		if f.above[i] == index {
			if assign, ok := f.above[i-1].(*ast.AssignStmt); ok && slices.Contains(assign.Lhs, ast.Expr(index)) {
				return ""
			}
		}
	}
	if value := f.info.Types[index.Index].Value; value != nil && value.Kind() == constant.String {
		return constant.StringVal(value)
	}
	return "*"
}

func (f *file) argumentKey(below ast.Node, call *ast.CallExpr) string {
	if f.info.Types[call.Fun].IsType() || isBuiltin(f.info, call, "len") || isBuiltin(f.info, call, "delete") ||
		call.Fun == below {
		return ""
	}
	if fn := Callee(f.info, call); fn != nil &&
		(f.program.inModule(fn.Pkg()) && !isAbstract(fn) || accessors[fn.Name()] == "" && fn.Pkg().Path() == metaPackage) {
		return ""
	}
	return "*"
}

// isMetaField reports whether a selection ends in labels or annotations of metadata.
func isMetaField(selection *types.Selection) bool {
	field, ok := selection.Obj().(*types.Var)
	return ok && field.Pkg() != nil && field.Pkg().Path() == metaPackage && hasKeys(field.Name())
}

// isTexts reports whether a type is a map of texts by texts.
func isTexts(t types.Type) bool {
	m, ok := t.Underlying().(*types.Map)
	return ok && types.Identical(m.Key().Underlying(), types.Typ[types.String]) &&
		types.Identical(m.Elem().Underlying(), types.Typ[types.String])
}
