// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"maps"
	"slices"
)

// replace is a state with a copy of the value at a path, in all elements of the lists on
// it. The state itself stays as it is. Objects on the path are made if they are not there;
// a list of the document is not: without elements there is nothing to set.
func replace(state map[string]any, path []step, value any, b *budget) (map[string]any, error) {
	if length := lengthOfList(path); length > 0 && length < len(path) {
		list, err := listAt(state, path[:length])
		if err != nil {
			return nil, err
		}
		if len(list) == 0 && !path[length].isIndex() {
			return state, nil
		}
	}
	r := replacement{path: path, value: value, budget: b}
	return r.inObject(state, path)
}

// replacement sets a value. Its functions copy what they change.
type replacement struct {
	path   []step
	value  any
	budget *budget
}

// in sets the value below a target. No steps mean the target itself.
func (r replacement) in(target any, steps []step) (any, error) {
	if len(steps) == 0 {
		return r.budget.copyOf(r.value)
	}
	switch t := target.(type) {
	case map[string]any:
		return r.inObject(t, steps)
	case []any:
		return r.inList(t, steps)
	case nil:
		if !steps[0].isIndex() {
			return r.inObject(nil, steps)
		}
	}
	return nil, r.missing(target, steps)
}

func (r replacement) inObject(object map[string]any, steps []step) (map[string]any, error) {
	s := steps[0]
	if s.isIndex() {
		return nil, r.missing(object, steps)
	}
	value, err := r.in(object[s.field], steps[1:])
	if err != nil {
		return nil, err
	}
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	out[s.field] = value
	return out, nil
}

func (r replacement) inList(list []any, steps []step) ([]any, error) {
	s := steps[0]
	if s.isIndex() && s.index >= len(list) {
		return nil, r.missing(list, steps)
	}
	out := slices.Clone(list)
	var err error
	if s.isIndex() {
		out[s.index], err = r.in(list[s.index], steps[1:])
		return out, err
	}
	for i, element := range list {
		if out[i], err = r.in(element, steps); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// missing is why the first of the remaining steps leads nowhere.
func (r replacement) missing(target any, steps []step) error {
	return missing(place(r.path[:len(r.path)-len(steps)]), target, steps[0])
}
