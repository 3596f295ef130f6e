// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package texts

import (
	"go/ast"
	"go/constant"
	"go/types"
	"path"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/test/api/trust/reads"
)

// decoders are functions that fill the struct behind their last argument from a text.
var decoders = []string{
	"encoding/json.Unmarshal", "(*encoding/json.Decoder).Decode", "sigs.k8s.io/json.UnmarshalStrict",
	"sigs.k8s.io/json.UnmarshalCaseSensitivePreserveInts", "sigs.k8s.io/yaml.Unmarshal", "sigs.k8s.io/yaml.UnmarshalStrict",
}

// call notes the values that the parameters of a function get, and the values that a message is
// formatted of.
func (r *reader) call(n *ast.CallExpr) {
	if r.isType(n.Fun) {
		return
	}
	if builtin := r.builtin(n); builtin == "copy" {
		r.flow(r.target(n.Args[0]), n.Args[1])
		return
	}
	fn := reads.Callee(r.pkg.Info, n)
	if at := r.formatOf(fn, r.signature(n)); at >= 0 {
		r.format(n, at)
		r.bind(fn, n, at)
		return
	}
	if fn == nil {
		return
	}
	switch name := fn.FullName(); {
	case name == "errors.New":
		r.sink("new", n.Args[0])
	case isLog(name):
		for _, argument := range n.Args {
			r.sink("log", argument)
		}
	case slices.Contains(decoders, name):
		r.decoded(n)
	case slices.Contains(r.rules.Decoders, name):
		r.decoded(n)
		r.bind(fn, n, len(n.Args))
	default:
		r.instance(n)
		r.bind(fn, n, len(n.Args))
	}
}

// isLog reports whether a function writes its arguments to a log.
func isLog(name string) bool {
	return strings.HasPrefix(name, "(*log/slog.Logger).") || strings.HasPrefix(name, "log/slog.") ||
		strings.HasPrefix(name, "(github.com/go-logr/logr.Logger).")
}

// instance notes that a generic function may decode its arguments into its types.
func (r *reader) instance(n *ast.CallExpr) {
	for i := range r.pkg.Info.Instances[reads.NameOf(n)].TypeArgs.Len() {
		r.fill(r.pkg.Info.Instances[reads.NameOf(n)].TypeArgs.At(i), r.all(n.Args), map[types.Type]bool{})
	}
}

// bind notes the values that the receiver and the first arguments of a function of the module get.
func (r *reader) bind(fn *types.Func, n *ast.CallExpr, most int) {
	for _, fn := range r.bodies(fn) {
		if selector, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok && fn.Signature().Recv() != nil {
			r.flow(fn.Signature().Recv(), selector.X)
		}
		parameters := fn.Signature().Params()
		for i, argument := range n.Args[:min(most, len(n.Args))] {
			if parameters.Len() > 0 {
				r.flow(parameters.At(min(i, parameters.Len()-1)), argument)
			}
		}
	}
}

// bodies returns the functions of the module that a call may reach.
func (r *reader) bodies(fn *types.Func) []*types.Func {
	if fn == nil || !r.pkg.InModule(fn.Pkg()) {
		return nil
	}
	recv := fn.Signature().Recv()
	if recv == nil || !types.IsInterface(recv.Type()) {
		return []*types.Func{fn}
	}
	var list []*types.Func
	wanted, _ := recv.Type().Underlying().(*types.Interface)
	for _, method := range r.methods[fn.Name()] {
		t := method.Signature().Recv().Type()
		if types.Implements(t, wanted) || types.Implements(types.NewPointer(t), wanted) {
			list = append(list, method)
		}
	}
	return list
}

// resultOf returns where a result of a call has its texts from.
func (r *reader) resultOf(n *ast.CallExpr, i int) (list []types.Object) {
	fn := reads.Callee(r.pkg.Info, n)
	switch builtin := r.builtin(n); {
	case r.isType(n.Fun):
		return r.roots(n.Args[0])
	case builtin == "append", builtin == "min", builtin == "max":
		return r.all(n.Args)
	case builtin != "":
		return nil
	case r.isBounded(fn), r.formatOf(fn, r.signature(n)) >= 0:
		return nil
	case fn != nil && r.pkg.InModule(fn.Pkg()):
		for _, fn := range r.bodies(fn) {
			if results := fn.Signature().Results(); i < results.Len() {
				list = append(list, results.At(i))
			}
		}
		return list
	}
	return r.resultOfOthers(fn, n, i)
}

// isBounded reports whether a function returns no text that is followed.
func (r *reader) isBounded(fn *types.Func) bool {
	if fn == nil || fn.Pkg() == nil {
		return false
	}
	path := fn.Pkg().Path()
	return path == r.rules.Cut || fn.FullName() == "errors.New" || slices.Contains(r.rules.Stores, path)
}

// resultOfOthers does the same as resultOf for functions of other modules: any text of theirs may
// be one of the arguments.
func (r *reader) resultOfOthers(fn *types.Func, n *ast.CallExpr, i int) (list []types.Object) {
	if fn == nil && isError(r.signature(n), i) {
		return nil // the errors of functions that are values have been formatted
	}
	if signature := r.signature(n); signature == nil || i >= signature.Results().Len() ||
		inert(signature.Results().At(i).Type()) {
		return nil
	}
	if selector, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok {
		list = r.roots(selector.X)
	}
	return append(list, r.all(n.Args)...)
}

func isError(signature *types.Signature, i int) bool {
	return signature != nil && i < signature.Results().Len() &&
		types.Identical(signature.Results().At(i).Type(), types.Universe.Lookup("error").Type())
}

func (r *reader) all(args []ast.Expr) (list []types.Object) {
	for _, argument := range args {
		list = append(list, r.roots(argument)...)
	}
	return list
}

// decoded notes that the fields of a struct are a text's.
func (r *reader) decoded(n *ast.CallExpr) {
	from := r.all(n.Args[:len(n.Args)-1])
	if selector, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok {
		from = append(from, r.roots(selector.X)...)
	}
	last := n.Args[len(n.Args)-1]
	if address, ok := ast.Unparen(last).(*ast.UnaryExpr); ok {
		r.link(r.target(address.X), from)
	}
	r.fill(r.pkg.Info.TypeOf(last), from, map[types.Type]bool{})
}

func (r *reader) fill(t types.Type, from []types.Object, seen map[types.Type]bool) {
	if seen[t] || inert(t) {
		return
	}
	seen[t] = true
	switch at := t.Underlying().(type) {
	case *types.Pointer:
		r.fill(at.Elem(), from, seen)
	case *types.Slice:
		r.fill(at.Elem(), from, seen)
	case *types.Map:
		r.fill(at.Elem(), from, seen)
	case *types.Struct:
		for field := range at.Fields() {
			if r.pkg.InModule(field.Pkg()) && !r.rules.bounds(r.ownerOf(field), field.Name()) {
				r.link(field, from)
				r.fill(field.Type(), from, seen)
			}
		}
	}
}

// bounds reports whether a field of a type has a bound of its own.
func (r Rules) bounds(owner, field string) bool {
	if r.Bounded[owner] || r.Bounded[owner+"."+field] {
		return true
	}
	dot := strings.LastIndexByte(owner, '.')
	if dot < 0 || !ast.IsExported(owner[dot+1:]) || !slices.Contains(r.Rows, owner[:dot]) {
		return false
	}
	return r.Unbounded[path.Base(owner[:dot])+owner[dot:]+"."+field] == ""
}

// formatOf returns the index of the format of a function such as fmt.Errorf, -1 for other
// functions.
func (r *reader) formatOf(fn *types.Func, signature *types.Signature) int {
	if signature == nil || !signature.Variadic() {
		return -1
	}
	last := signature.Params().Len() - 1
	list, ok := signature.Params().At(last).Type().Underlying().(*types.Slice)
	if !ok {
		return -1
	}
	if empty, ok := list.Elem().Underlying().(*types.Interface); !ok || !empty.Empty() {
		return -1
	}
	switch {
	case fn != nil && !r.pkg.InModule(fn.Pkg()) && !strings.HasSuffix(fn.Name(), "f"):
		return -1
	case last > 0 && types.Identical(signature.Params().At(last-1).Type(), types.Typ[types.String]):
		return last - 1
	}
	return -1
}

// format notes the arguments of a message that are written as texts.
func (r *reader) format(n *ast.CallExpr, at int) {
	if n.Ellipsis.IsValid() || at >= len(n.Args) {
		return // the caller's arguments are noted where it is called
	}
	args := n.Args[at+1:]
	value := r.pkg.Info.Types[n.Args[at]].Value
	if value == nil || value.Kind() != constant.String {
		for _, argument := range args {
			r.sink("%v", argument)
		}
		return
	}
	for i, verb := range verbs(constant.StringVal(value)) {
		if i < len(args) && strings.ContainsRune("sqvwT", rune(verb)) && verb != 'T' {
			r.sink("%"+string(verb), args[i])
		}
	}
}

// verbs returns the verbs of a format in the order of their arguments.
func verbs(format string) (list []byte) {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.[]*", format[i]) >= 0; i++ {
			if format[i] == '*' {
				list = append(list, '*')
			}
		}
		if i < len(format) && format[i] != '%' {
			list = append(list, format[i])
		}
	}
	return list
}

func (r *reader) sink(verb string, e ast.Expr) {
	t := r.pkg.Info.TypeOf(e)
	if inert(t) {
		return
	}
	r.sinks = append(
		r.sinks,
		sink{pos: e.Pos(), verb: verb, text: types.ExprString(e), roots: append(r.roots(e), r.formatted(t)...), typed: t},
	)
}

// formatted returns the texts that fmt writes of a value with methods for it, or of a struct.
func (r *reader) formatted(t types.Type) (list []types.Object) {
	for _, name := range []string{"Error", "String"} {
		method, _, _ := types.LookupFieldOrMethod(t, true, r.pkg.Types, name)
		if fn, ok := method.(*types.Func); ok {
			if types.IsInterface(t) {
				return nil // the parts of the value are followed
			}
			for _, fn := range r.bodies(fn.Origin()) {
				list = append(list, fn.Signature().Results().At(0))
			}
			return list
		}
	}
	if st, ok := under(t).(*types.Struct); ok {
		for field := range st.Fields() {
			if !inert(field.Type()) {
				list = append(list, r.variable(field)...)
			}
		}
	}
	return list
}

func (r *reader) isType(e ast.Expr) bool { return r.pkg.Info.Types[e].IsType() }

func (r *reader) signature(n *ast.CallExpr) *types.Signature {
	t := r.pkg.Info.TypeOf(n.Fun)
	if t == nil {
		return nil
	}
	signature, _ := t.Underlying().(*types.Signature)
	return signature
}

func (r *reader) builtin(n *ast.CallExpr) string {
	if name, ok := ast.Unparen(n.Fun).(*ast.Ident); ok {
		if builtin, ok := r.pkg.Info.Uses[name].(*types.Builtin); ok {
			return builtin.Name()
		}
	}
	return ""
}
