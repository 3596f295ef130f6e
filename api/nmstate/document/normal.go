// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"reflect"
)

// Normal returns a JSON document in the one form that ParseJSON gives it, so that two documents
// with the same meaning are equal. Unreadable parts, such as an unknown field or an expression of
// a policy, stay as they are. A field with null is left out. The result shares parts with the
// document, which is not changed.
func Normal(document map[string]any) map[string]any {
	if document == nil {
		return nil
	}
	return normalObject(document, reflect.TypeFor[State]())
}

// normal is Normal for a value of a type of this package.
func normal(value any, of reflect.Type) any {
	switch of.Kind() {
	case reflect.Pointer:
		return normal(value, of.Elem())
	case reflect.Map:
		return value
	case reflect.Struct:
		if object, ok := value.(map[string]any); ok {
			return normalObject(object, of)
		}
		return value
	case reflect.Slice:
		items, ok := value.([]any)
		if !ok {
			return value
		}
		list := make([]any, len(items))
		for n, item := range items {
			list[n] = normal(item, of.Elem())
		}
		return list
	default:
		return normalScalar(value, of)
	}
}

func normalScalar(value any, of reflect.Type) any {
	to := reflect.New(of).Elem()
	if value == nil || scalar(to, readable(value)) != "" {
		return value
	}
	switch of.Kind() {
	case reflect.String:
		return to.String()
	case reflect.Bool:
		return to.Bool()
	case reflect.Uint32:
		return float64(to.Uint())
	default:
		return float64(to.Int())
	}
}

func normalObject(object map[string]any, of reflect.Type) map[string]any {
	if of == reflect.TypeFor[Interface]() && object["state"] == Absent {
		object = identity(object)
	}
	known, next := layouts()[of], make(map[string]any, len(object))
	for key, value := range object {
		index, ok := known.index[key]
		if !ok {
			if !idle(key, value) {
				next[key] = value
			}
			continue
		}
		name := known.first[index]
		if _, twice := object[name]; twice && name != key {
			next[key] = value // A reader refuses two names of one field.
			continue
		}
		if value != nil {
			next[name] = normal(value, of.Field(index).Type)
		}
	}
	return settled(next, of)
}

// settled is an object in the one form that its settler gives it, or the object itself if it has
// none or can't be read.
func settled(object map[string]any, of reflect.Type) map[string]any {
	to := reflect.New(of)
	if _, ok := to.Interface().(settler); !ok {
		return object
	}
	var r reader
	if r.object(to.Elem(), readable(object), &place{}); len(r.problems) > 0 {
		return object
	}
	text, err := json.Marshal(to.Interface())
	var next map[string]any
	if err == nil {
		err = json.Unmarshal(text, &next)
	}
	if err != nil {
		return object
	}
	return next
}

// readable returns a value as the reader takes it: whole numbers are int64.
func readable(value any) any {
	switch value := value.(type) {
	case float64:
		if whole := int64(value); float64(whole) == value {
			return whole
		}
	case int:
		return int64(value)
	case map[string]any:
		object := make(map[string]any, len(value))
		for key, item := range value {
			object[key] = readable(item)
		}
		return object
	case []any:
		list := make([]any, len(value))
		for n, item := range value {
			list[n] = readable(item)
		}
		return list
	}
	return value
}
