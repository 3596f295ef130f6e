// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// step is a part of a path: a field. With elements it also stands for the values below each element
// of the field, or below the element with a key.
type step struct {
	field    string
	elements bool
	key      string
}

// steps parses a path of package reads.
func steps(path string) []step {
	var all []step
	for path != "" {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			return append(all, step{field: path})
		}
		s := step{field: path[:end]}
		path = path[end:]
		for strings.HasPrefix(path, "[") {
			key, rest, _ := strings.Cut(path[1:], "]")
			if s.elements, path = true, rest; key != "*" {
				s.key = key
			}
		}
		all = append(all, s)
		path = strings.TrimPrefix(path, ".")
	}
	return all
}

// at returns the value at a path. Of a list or map it takes the first element.
func at(value any, path []step) any {
	for _, s := range path {
		fields, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = fields[s.field]
		if s.elements {
			value = element(value, s.key)
		}
	}
	return value
}

func element(value any, key string) any {
	switch all := value.(type) {
	case []any:
		if len(all) > 0 {
			return all[0]
		}
	case map[string]any:
		if key == "" && len(all) > 0 {
			key = slices.Min(slices.Collect(maps.Keys(all)))
		}
		return all[key]
	}
	return nil
}

// with returns a copy of a value that has another value at the path. It makes missing lists and
// maps on the way.
func with(value any, path []step, changed any) any {
	if len(path) == 0 {
		return changed
	}
	fields, ok := value.(map[string]any)
	if !ok {
		fields = map[string]any{}
	}
	fields = maps.Clone(fields)
	s := path[0]
	if !s.elements {
		fields[s.field] = with(fields[s.field], path[1:], changed)
		return fields
	}
	switch all := fields[s.field].(type) {
	case map[string]any:
		key := s.key
		if key == "" {
			key = "probe"
			if len(all) > 0 {
				key = slices.Min(slices.Collect(maps.Keys(all)))
			}
		}
		all = maps.Clone(all)
		all[key] = with(all[key], path[1:], changed)
		fields[s.field] = all
	case []any:
		all = slices.Clone(all)
		if len(all) == 0 {
			all = []any{nil}
		}
		all[0] = with(all[0], path[1:], changed)
		fields[s.field] = all
	default:
		made := with(nil, path[1:], changed)
		fields[s.field] = any([]any{made})
		if s.key != "" {
			fields[s.field] = map[string]any{s.key: made}
		}
	}
	return fields
}

// candidates are values to try in place of a value, the likeliest first.
func candidates(value any) []any {
	switch value := value.(type) {
	case string:
		return []any{altered(value), value + "x", "probe"}
	case int64:
		return []any{value + 1, value - 1}
	case float64:
		return []any{value + 1}
	case bool:
		return []any{!value}
	case map[string]any:
		return candidateMaps(value)
	case []any:
		return []any{[]any{}, append(slices.Clone(value), value...)}
	}
	return []any{"probe", int64(7), true, map[string]any{"probe": "probe"}, []any{"probe"}}
}

// candidateMaps alters one text of a map, then adds a key.
func candidateMaps(value map[string]any) []any {
	var all []any
	for _, key := range append([]string{"message", "value", "path", "name"}, slices.Sorted(maps.Keys(value))...) {
		if text, ok := value[key].(string); ok && len(all) < 2 {
			other := maps.Clone(value)
			other[key] = altered(text)
			all = append(all, other)
		}
	}
	more := maps.Clone(value)
	more["probe"] = "probe"
	return append(all, more)
}

// altered returns a text of the same form: its last letter or digit differs.
func altered(text string) string {
	bytes := []byte(text)
	for i := len(bytes) - 1; i >= 0; i-- {
		switch c := bytes[i]; {
		case c >= '0' && c < '9', c >= 'a' && c < 'f', c >= 'g' && c < 'z', c >= 'A' && c < 'Z':
			bytes[i]++
			return string(bytes)
		case c == '9', c == 'f', c == 'z', c == 'Z':
			bytes[i]--
			return string(bytes)
		}
	}
	return text + "x"
}

// same reports whether two values are equal as JSON.
func same(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && reflect.DeepEqual(x, y)
}

// copied returns a deep copy of the fields of an object.
func copied(fields map[string]any) map[string]any { return runtime.DeepCopyJSON(fields) }
