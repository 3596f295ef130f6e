// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// place is the position of a value in a document.
type place struct {
	above *place
	// field is a name in an object, "" for an element of a list, which has an index.
	field string
	index int
}

func (p *place) in(field string) *place { return &place{above: p, field: field} }
func (p *place) at(index int) *place    { return &place{above: p, index: index} }
func (p *place) isElement() bool        { return p.field == "" && p.above != nil }
func (p *place) isField() bool          { return p.field != "" }
func (p *place) wrong(v any, want string) error {
	return fmt.Errorf("%s: %s: want %s", p, shown(v), want)
}

// String is the path as messages have it, "the document" for all of it.
func (p *place) String() string {
	path := p.path()
	if path == "" {
		return "the document"
	}
	return path
}

func (p *place) path() string {
	switch {
	case p.isElement():
		return fmt.Sprintf("%s[%d]", p.above.path(), p.index)
	case p.isField():
		return strings.TrimPrefix(p.above.path()+"."+quote.Name(p.field), ".")
	default:
		return ""
	}
}

// settler is a part of a document that can be written in several forms. settle gives it the
// one form that the engine has.
type settler interface{ settle() }

// patterned is a part of a document where a missing field can mean any value. So an empty text
// must not be taken for a missing one.
type patterned interface{ mayBeEmpty(field string) bool }

// reader fills a document from the result of a parser of JSON. It goes on after an error, so
// a person gets all errors at once.
type reader struct{ problems []error }

// read fills a state. The error names all wrong fields, with paths and values.
func (s *State) read(tree any) error {
	var r reader
	r.fill(reflect.ValueOf(s).Elem(), tree, &place{})
	return errors.Join(r.problems...)
}

// fill sets a value. null counts as a missing value.
func (r *reader) fill(to reflect.Value, from any, at *place) {
	if from == nil {
		return
	}
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		r.fill(to.Elem(), from, at)
	case reflect.Struct:
		r.object(to, from, at)
	case reflect.Slice:
		r.list(to, from, at)
	case reflect.Map:
		if object, ok := from.(map[string]any); ok {
			to.Set(reflect.ValueOf(maps.Clone(object)))
			return
		}
		r.add(at.wrong(from, "an object"))
	default:
		if err := scalar(to, from); err != "" {
			r.add(at.wrong(from, err))
		}
	}
}

func (r *reader) add(err error) { r.problems = append(r.problems, err) }

func (r *reader) list(to reflect.Value, from any, at *place) {
	items, ok := from.([]any)
	if !ok {
		r.add(at.wrong(from, "a list"))
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(items), len(items)))
	for n, item := range items {
		if item == nil {
			r.add(at.at(n).wrong(item, "a value"))
			continue
		}
		r.fill(to.Index(n), item, at.at(n))
	}
}

func (r *reader) object(to reflect.Value, from any, at *place) {
	object, ok := from.(map[string]any)
	if !ok {
		r.add(at.wrong(from, "an object"))
		return
	}
	if to.Type() == reflect.TypeFor[Interface]() && (object["state"] == Absent || isOpenVSwitch(object)) {
		object = identity(object)
	}
	of, found, last := layouts()[to.Type()], 0, ""
	for n, name := range of.names {
		value, ok := object[name]
		if !ok {
			continue
		}
		found++
		// The second name of a field comes after the first one.
		if index := of.index[name]; n > 0 && last == of.names[n-1] && of.index[last] == index {
			r.add(fmt.Errorf("%s: it is the same as %s: remove one", at.in(name), quote.Name(last)))
		} else {
			r.fill(to.Field(index), value, at.in(name))
		}
		last = name
	}
	if found < len(object) {
		r.unknown(object, of, at)
	}
	for _, name := range of.required {
		if object[name] == nil {
			r.add(fmt.Errorf("%s: missing: it is needed", at.in(name)))
		}
	}
	r.checkEmpty(to, object, at)
	if s, ok := to.Addr().Interface().(settler); ok {
		s.settle()
	}
}

// isOpenVSwitch reports whether an interface has a type that is refused. The sections of such an
// interface have other shapes than the sections of that name here, so only its type is judged.
func isOpenVSwitch(object map[string]any) bool {
	return object["type"] == "ovs-bridge" || object["type"] == "ovs-interface"
}

// identity has the fields that matter of an absent interface, as in nmstate. made-by is Alioth's own.
func identity(object map[string]any) map[string]any {
	short := map[string]any{}
	for _, name := range []string{"name", "type", "state", "made-by"} {
		if value, ok := object[name]; ok {
			short[name] = value
		}
	}
	return short
}

// checkEmpty refuses empty texts that would be taken for missing fields.
func (r *reader) checkEmpty(to reflect.Value, object map[string]any, at *place) {
	p, ok := to.Addr().Interface().(patterned)
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if text, ok := object[name].(string); ok && text == "" && !p.mayBeEmpty(name) {
			r.add(at.in(name).wrong(text, "a value: to match any, remove the field"))
		}
	}
}

// unknown adds an error for each field that the engine lacks, with the reason for a field of nmstate.
func (r *reader) unknown(object map[string]any, of layout, at *place) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, known := of.index[name]; known || idle(name, object[name]) {
			continue
		}
		why := unsupported[name]
		if why != "" {
			why = ": " + why
		}
		r.add(fmt.Errorf("unknown field %q%s", at.in(name).path(), why))
	}
}
