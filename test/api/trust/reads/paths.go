// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reads

import (
	"cmp"
	"go/token"
	"go/types"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Kind is a type of objects by its package and name.
type Kind struct{ Package, Name string }

// Read is a field of a kind that the program reads.
type Read struct {
	Kind Kind
	// Path has names of JSON; [*] stands for every element of a list or map, [key] for the
	// label or annotation of that key.
	Path string
	// Place is one place that reads it.
	Place string
}

// Report has the reads of a program.
type Report struct {
	// Reads are sorted by kind and path.
	Reads []Read
	// Opaque are calls that get an object whose kind is not known there, sorted. Their reads are
	// not among the reads.
	Opaque []Opaque
}

// Opaque is a function of another module and a file that calls it.
type Opaque struct{ Function, File string }

// Of finds the reads of a program.
func Of(p *Program, rules Rules) Report {
	s := scanAll(p, rules)
	report := Report{Opaque: slices.SortedFunc(maps.Keys(s.opaque), func(a, b Opaque) int {
		return cmp.Or(cmp.Compare(a.Function, b.Function), cmp.Compare(a.File, b.File))
	})}
	for name := range s.kinds {
		report.Reads = append(report.Reads, s.of(name)...)
	}
	slices.SortFunc(report.Reads, func(a, b Read) int {
		return cmp.Or(
			cmp.Compare(a.Kind.Name, b.Kind.Name),
			cmp.Compare(a.Kind.Package, b.Kind.Package),
			cmp.Compare(a.Path, b.Path),
		)
	})
	return report
}

// of returns the reads of a kind's fields.
func (s *scan) of(name *types.TypeName) []Read {
	kind := Kind{name.Pkg().Path(), name.Name()}
	found := map[string]token.Pos{}
	st := name.Type().Underlying().(*types.Struct)
	for i := range st.NumFields() {
		field, tag := st.Field(i), st.Tag(i)
		if !isMeta(field.Type()) && field.Name() != "TypeMeta" {
			maps.Copy(found, s.below("", field, tag, 0))
		}
	}
	if at, ok := s.whole[st]; ok {
		found["**"] = at
	}
	maps.Copy(found, s.metadataOf(name))
	var reads []Read
	for path, pos := range found {
		reads = append(reads, Read{kind, path, s.program.place(pos)})
	}
	return reads
}

// deepest bounds paths of types that contain themselves.
const deepest = 16

// below returns the paths that are read at or below a field.
func (s *scan) below(prefix string, field *types.Var, tag string, depth int) map[string]token.Pos {
	pos, isUsed := s.used[field.Origin()]
	if !isUsed && !s.reached[field.Origin()] && !field.Embedded() || depth > deepest {
		return nil
	}
	path := join(prefix, field, tag) + elements(field.Type())
	found := map[string]token.Pos{}
	if name, st := structOf(field.Type()); st != nil && s.isAPIStruct(name) {
		if at, ok := s.whole[st]; ok && (isUsed || s.reached[field.Origin()]) {
			return map[string]token.Pos{path: at}
		}
		for i := range st.NumFields() {
			maps.Copy(found, s.below(path, st.Field(i), st.Tag(i), depth+1))
		}
	}
	if len(found) == 0 && isUsed {
		found[path] = pos
	}
	return found
}

// metadataOf returns the reads of a kind's metadata, by code for this kind or for all that
// implement an interface.
func (s *scan) metadataOf(name *types.TypeName) map[string]token.Pos {
	found := map[string]token.Pos{}
	for _, l := range s.values.lookups {
		for o := range s.values.of(l.from, l.origin) {
			if (o.field == "") == (l.key == "") && o.of.has(name) && s.gets(o, l, name) {
				found["metadata."+l.path(o)] = l.pos
			}
		}
	}
	return found
}

// gets reports whether a use of an object of any kind is a use of this kind.
func (s *scan) gets(o origin, l lookup, name *types.TypeName) bool {
	if !types.IsInterface(o.of.Type) {
		return true
	}
	file := s.program.fileOf(l.pos)
	for path, names := range s.rules.Generic {
		if file == path || strings.HasSuffix(path, "/") && strings.HasPrefix(file, path) {
			return slices.Contains(names, name.Name())
		}
	}
	return true
}

// path returns the path that a use reads of a value.
func (l lookup) path(o origin) string {
	field := cmp.Or(l.field, o.field)
	switch {
	case field == "UID":
		return "uid"
	case l.key != "":
		return jsonName(field) + "[" + l.key + "]"
	}
	return jsonName(field)
}

func jsonName(field string) string { return strings.ToLower(field[:1]) + field[1:] }

// has reports whether a kind is the holder, or implements it.
func (h holder) has(name *types.TypeName) bool {
	switch of := h.Type.(type) {
	case *types.Struct:
		return name.Type().Underlying() == of
	case *types.Interface:
		return types.Implements(types.NewPointer(name.Type()), of)
	}
	return false
}

func join(prefix string, field *types.Var, tag string) string {
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	switch {
	case name == "" && field.Embedded():
		return prefix
	case name == "":
		name = field.Name()
	}
	return strings.TrimPrefix(prefix+"."+name, ".")
}

// elements returns [*] for each list or map that a type is.
func elements(t types.Type) string {
	switch at := t.Underlying().(type) {
	case *types.Pointer:
		return elements(at.Elem())
	case *types.Slice:
		if basic, ok := at.Elem().Underlying().(*types.Basic); ok && basic.Kind() == types.Byte {
			return ""
		}
		return "[*]" + elements(at.Elem())
	case *types.Map:
		return "[*]" + elements(at.Elem())
	}
	return ""
}
