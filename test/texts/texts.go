// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package texts

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"github.com/alioth-net/alioth/test/api/trust/reads"
)

// Finding is a text of others that a message repeats as it is.
type Finding struct {
	// Place is the file and line, Verb the verb of the format, Text the expression.
	Place, Verb, Text string
	// Source is the field that others fill, Way the steps from there to the message.
	Source string
	Way    []string
	// Pos and Type are of the expression.
	Pos  token.Pos
	Type types.Type
}

// Of finds the texts of others that a program formats without bound.
func Of(p *reads.Program, rules Rules) []Finding {
	f := &flows{
		rules:   rules,
		from:    map[types.Object][]types.Object{},
		foreign: map[types.Object]bool{},
		methods: map[string][]*types.Func{},
		owners:  map[*types.Var]string{},
	}
	for pkg := range p.Packages() {
		f.declared(pkg)
	}
	for pkg := range p.Packages() {
		if pkg.Types.Path() == rules.Cut {
			continue
		}
		for _, file := range pkg.Files {
			(&reader{flows: f, pkg: pkg}).read(file)
		}
	}
	ways := f.spread()
	var list []Finding
	for _, s := range f.sinks {
		for _, root := range s.roots {
			if way, ok := ways[root]; ok {
				list = append(list, Finding{p.Place(s.pos), s.verb, s.text, f.name(way[len(way)-1]), f.names(way), s.pos, s.typed})
				break
			}
		}
	}
	slices.SortFunc(
		list,
		func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Text, b.Text)) },
	)
	return list
}

// declared notes the methods of a package.
func (f *flows) declared(pkg reads.Package) {
	for _, file := range pkg.Files {
		for _, declared := range file.Decls {
			if fn, ok := declared.(*ast.FuncDecl); ok && fn.Recv != nil {
				method, _ := pkg.Info.Defs[fn.Name].(*types.Func)
				f.methods[method.Name()] = append(f.methods[method.Name()], method)
			}
		}
	}
}

// spread returns each variable, field and result that may have a text of others, with the
// way to it.
func (f *flows) spread() map[types.Object][]types.Object {
	to := map[types.Object][]types.Object{}
	for object, froms := range f.from {
		for _, from := range froms {
			to[from] = append(to[from], object)
		}
	}
	ways := map[types.Object][]types.Object{}
	var queue []types.Object
	for object := range f.foreign {
		ways[object] = []types.Object{object}
		queue = append(queue, object)
	}
	slices.SortFunc(queue, func(a, b types.Object) int { return cmp.Compare(f.name(a), f.name(b)) })
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, next := range to[at] {
			if v, ok := next.(*types.Var); ok && v.IsField() && f.rules.bounds(f.ownerOf(v), v.Name()) {
				continue
			}
			if ways[next] == nil {
				ways[next] = append([]types.Object{next}, ways[at]...)
				queue = append(queue, next)
			}
		}
	}
	return ways
}

func (f *flows) name(object types.Object) string {
	if v, ok := object.(*types.Var); ok && v.IsField() {
		return f.ownerOf(v) + "." + v.Name()
	}
	return object.Name()
}

func (f *flows) names(way []types.Object) (list []string) {
	for _, object := range way {
		list = append(list, f.name(object))
	}
	return list
}
