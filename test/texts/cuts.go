// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package texts

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"

	"github.com/alioth-net/alioth/test/api/trust/reads"
)

// Cuts returns the places where a program cuts a text after a number of bytes, which may be within
// a character, by file. It leaves out a text that ends where something was found in it. but is the
// path of the package whose function cuts texts.
func Cuts(p *reads.Program, but string) (places []string) {
	for pkg := range p.Packages() {
		if pkg.Types.Path() == but {
			continue
		}
		for _, file := range pkg.Files {
			ast.Inspect(file, func(node ast.Node) bool {
				if cut, ok := node.(*ast.SliceExpr); ok && isString(pkg.Info.TypeOf(cut.X)) && isByNumber(pkg.Info, cut.High) {
					places = append(places, p.Place(cut.Pos()))
				}
				return true
			})
		}
	}
	slices.Sort(places)
	return places
}

func isString(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsString != 0
}

// isByNumber reports whether the end of a slice depends on a number in the source, or on the
// smaller one of two.
func isByNumber(info *types.Info, end ast.Expr) (found bool) {
	if end == nil {
		return false
	}
	ast.Inspect(end, func(node ast.Node) bool {
		e, ok := node.(ast.Expr)
		if !ok {
			return true
		}
		if value := info.Types[e].Value; value != nil && value.Kind() == constant.Int &&
			constant.Compare(value, token.GTR, constant.MakeInt64(1)) {
			found = true
		}
		if name, ok := e.(*ast.Ident); ok {
			builtin, _ := info.Uses[name].(*types.Builtin)
			found = found || builtin != nil && builtin.Name() == "min"
		}
		return !found
	})
	return found
}
