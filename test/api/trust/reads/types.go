// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reads

import (
	"go/ast"
	"go/types"
)

// structOf returns the struct that a type is, points to, or has as its elements, with the
// type's name; nil for other types.
func structOf(t types.Type) (*types.TypeName, *types.Struct) {
	for t != nil {
		switch at := types.Unalias(t).(type) {
		case *types.Named:
			if st, ok := at.Underlying().(*types.Struct); ok {
				return at.Obj(), st
			}
			t = at.Underlying()
			if _, ok := t.(*types.Interface); ok {
				return nil, nil
			}
		case *types.Pointer:
			t = at.Elem()
		case *types.Slice:
			t = at.Elem()
		case *types.Array:
			t = at.Elem()
		case *types.Map:
			t = at.Elem()
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// isPointer reports whether a type is anything but a struct itself. The presence of its value, or
// the number of its elements, is of interest without its fields.
func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Struct)
	return !ok
}

// isMeta reports whether a type is the metadata of objects.
func isMeta(t types.Type) bool {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "ObjectMeta" && named.Obj().Pkg().Path() == metaPackage
}

// isKind reports whether a struct is an object of the API.
func isKind(st *types.Struct) bool {
	typed, meta := false, false
	for field := range st.Fields() {
		if field.Embedded() {
			meta = meta || isMeta(field.Type())
			typed = typed || field.Name() == "TypeMeta"
		}
	}
	return typed && meta
}

// isObjectInterface reports whether a type stands for objects of several kinds.
func isObjectInterface(t types.Type) bool {
	if t == nil {
		return false
	}
	if _, ok := t.Underlying().(*types.Interface); !ok {
		return false
	}
	for _, name := range []string{"DeepCopyObject", "GetResourceVersion"} {
		if object, _, _ := types.LookupFieldOrMethod(t, true, nil, name); object != nil {
			return true
		}
	}
	return false
}

func isBuiltin(info *types.Info, call *ast.CallExpr, name string) bool {
	ident, ok := ast.Unparen(call.Fun).(*ast.Ident)
	if !ok {
		return false
	}
	builtin, ok := info.Uses[ident].(*types.Builtin)
	return ok && builtin.Name() == name
}

func nodeExpr(n ast.Node) ast.Expr {
	e, _ := n.(ast.Expr)
	return e
}
