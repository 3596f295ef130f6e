// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

// keep is a state with the part alone that a path leads to. An element of a list stays
// alone in its list. Without steps it is the state itself.
func keep(state map[string]any, path []step) (map[string]any, error) {
	if len(path) == 0 {
		return state, nil
	}
	// Documents leave empty lists out.
	if length := lengthOfList(path); length == len(path) {
		list, err := listAt(state, path)
		if err != nil {
			return nil, err
		}
		return wrap(path, list), nil
	}
	var value any = state
	for i, s := range path {
		next, ok := child(value, s)
		if !ok {
			return nil, missing(place(path[:i]), value, s)
		}
		value = next
	}
	return wrap(path, value), nil
}

// place is a path of a state in words.
func place(path []step) string {
	if len(path) == 0 {
		return "the state"
	}
	return words("", path)
}

// wrap is a state that has a value at a path, and nothing else.
func wrap(path []step, value any) map[string]any {
	for i := len(path) - 1; i > 0; i-- {
		if path[i].isIndex() {
			value = []any{value}
		} else {
			value = map[string]any{path[i].field: value}
		}
	}
	return map[string]any{path[0].field: value}
}

// listAt is the list at a path of names. It is empty if the state has none.
func listAt(state map[string]any, path []step) ([]any, error) {
	var value any = state
	for i, s := range path {
		if _, isObject := value.(map[string]any); !isObject {
			return nil, missing(place(path[:i]), value, s)
		}
		next, ok := child(value, s)
		if !ok {
			return []any{}, nil
		}
		value = next
	}
	list, ok := value.([]any)
	if !ok {
		last := path[len(path)-1]
		return nil, faultf(last.column, "%s is %s, expected a list", place(path), nounOf(value))
	}
	return list, nil
}

// filter is a state with those elements alone of a root's list whose field satisfies the
// comparison. The elements are whole.
func filter(state map[string]any, path []step, c comparison) (map[string]any, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	length := lengthOfList(path)
	list, err := listAt(state, path[:length])
	if err != nil {
		return nil, err
	}
	c.path = path
	kept := []any{}
	for i, element := range list {
		fields := path[length:]
		if fields[0].isIndex() {
			if fields[0].index != i {
				continue
			}
			fields = fields[1:]
		}
		ok, err := c.matches(element, fields)
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, element)
		}
	}
	return wrap(path[:length], kept), nil
}

// comparison compares a field with a value.
type comparison struct {
	// path is the path of the field from the state's root.
	path []step
	// value is a scalar, and column its place if a reference led to it.
	value   any
	column  int
	negated bool
}

// check refuses a value unless it is a scalar.
func (c comparison) check() error {
	if isScalar(c.value) {
		return nil
	}
	return faultf(c.column, "expected a text, a number or a boolean to compare with, found %s", nounOf(c.value))
}

// matches compares the field of an element. A list within the element matches if one of
// its elements does. A field that is not there doesn't match, whatever the operator is.
func (c comparison) matches(value any, fields []step) (bool, error) {
	if list, ok := value.([]any); ok && len(fields) > 0 && !fields[0].isIndex() {
		return c.anyMatches(list, fields)
	}
	if len(fields) == 0 {
		return c.compare(value)
	}
	switch value.(type) {
	case map[string]any, []any:
		next, ok := child(value, fields[0])
		if !ok {
			return false, nil
		}
		return c.matches(next, fields[1:])
	case nil:
		return false, nil
	default:
		return false, missing(place(c.path[:len(c.path)-len(fields)]), value, fields[0])
	}
}

func (c comparison) anyMatches(list []any, fields []step) (bool, error) {
	for _, element := range list {
		if ok, err := c.matches(element, fields); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// compare compares a scalar with another of its type.
func (c comparison) compare(value any) (bool, error) {
	if nounOf(value) != nounOf(c.value) || !isScalar(value) {
		last := c.path[len(c.path)-1]
		return false, faultf(
			last.column,
			"%s is %s, and can't be compared with %s",
			place(c.path),
			nounOf(value),
			nounOf(c.value),
		)
	}
	same := value == c.value
	if a, ok := Number(value); ok {
		b, _ := Number(c.value)
		same = a == b
	}
	return same != c.negated, nil
}

func isScalar(value any) bool {
	switch value.(type) {
	case string, bool:
		return true
	}
	_, ok := Number(value)
	return ok
}
