// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/json"
	"fmt"
	"strings"
)

// resolve follows a reference into the results of captures, and finds one value.
func resolve(r reference, captures map[string]map[string]any) (any, error) {
	captured, ok := captures[r.capture]
	if !ok {
		return nil, faultf(r.column, "no capture has the name %q", r.capture)
	}
	var value any = captured
	for i, s := range r.steps {
		next, ok := child(value, s)
		if !ok {
			return nil, missing(words(captureRoot+"."+r.capture, r.steps[:i]), value, s)
		}
		value = next
	}
	return value, nil
}

// child returns the value that a step leads to. It treats a field with null as a missing field.
func child(value any, s step) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		next := v[s.field]
		return next, !s.isIndex() && next != nil
	case []any:
		if s.isIndex() && s.index < len(v) {
			return v[s.index], true
		}
	}
	return nil, false
}

// missing tells why a step leads nowhere from the value at a path.
func missing(path string, value any, s step) error {
	list, isList := value.([]any)
	_, isObject := value.(map[string]any)
	switch {
	case isList && s.isIndex():
		return faultf(s.column, "%s has %d elements, and no index %s", path, len(list), s)
	case isList:
		return faultf(s.column, "%s is a list: expected an index before %q", path, s)
	case isObject && s.isIndex():
		return faultf(s.column, "%s is an object: expected a field's name instead of the index %s", path, s)
	case isObject:
		return faultf(s.column, "%s has no field %q", path, s)
	default:
		return faultf(s.column, "%s is %s, and has no %q", path, nounOf(value), s)
	}
}

// words is a path as an expression has it. root is where it begins, or "".
func words(root string, steps []step) string {
	var parts []string
	if root != "" {
		parts = append(parts, root)
	}
	for _, s := range steps {
		parts = append(parts, s.String())
	}
	return strings.Join(parts, ".")
}

// nounOf calls the type of a JSON value by its name.
func nounOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	if _, ok := Number(value); ok {
		return "a number"
	}
	return fmt.Sprintf("a %T", value)
}

// Number reads a number as decoders make them: encoding/json makes a float64 or a json.Number,
// and the decoder of Kubernetes an int64.
func Number(value any) (float64, bool) {
	switch v := value.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	case json.Number:
		n, err := v.Float64()
		return n, err == nil
	}
	return 0, false
}
