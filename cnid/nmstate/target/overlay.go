// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"reflect"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// Merge returns an interface with the fields that want has, and the fields of have elsewhere.
// Objects are merged field by field, and lists replaced. It shares no memory with either.
func Merge(have, want document.Interface) document.Interface {
	merged := clone(reflect.ValueOf(have))
	overlay(merged, reflect.ValueOf(want))
	return merged.Interface().(document.Interface)
}

// Only returns the fields of an interface that named has too, whatever their values there.
// Lists are one value.
func Only(named, whole document.Interface) document.Interface {
	rest := clone(reflect.ValueOf(whole))
	restrict(rest, reflect.ValueOf(named))
	return rest.Interface().(document.Interface)
}

// has reports whether a document that is written has a field of a struct.
func has(parent reflect.Value, at int) bool {
	field := parent.Field(at)
	if field.Kind() == reflect.Map {
		return field.Len() > 0
	}
	return !field.IsZero() || !strings.Contains(parent.Type().Field(at).Tag.Get("json"), ",omit")
}

// overlay sets the fields of a struct that another one has.
func overlay(below, above reflect.Value) {
	for at := range above.NumField() {
		under, over := below.Field(at), above.Field(at)
		switch {
		case !has(above, at):
		case object(over) && !under.IsNil():
			overlay(under.Elem(), over.Elem())
		case over.Kind() == reflect.Map && !under.IsNil():
			for _, key := range over.MapKeys() {
				under.SetMapIndex(key, over.MapIndex(key))
			}
		default:
			under.Set(clone(over))
		}
	}
}

// restrict clears the fields of a struct that another one has not.
func restrict(whole, named reflect.Value) {
	for at := range named.NumField() {
		field, name := whole.Field(at), named.Field(at)
		switch {
		case !has(named, at):
			field.SetZero()
		case object(name) && !field.IsNil():
			restrict(field.Elem(), name.Elem())
		case name.Kind() == reflect.Map:
			for _, key := range field.MapKeys() {
				if !name.MapIndex(key).IsValid() {
					field.SetMapIndex(key, reflect.Value{})
				}
			}
		}
	}
}

// object reports whether a field is one with fields of its own.
func object(field reflect.Value) bool {
	return field.Kind() == reflect.Pointer && field.Type().Elem().Kind() == reflect.Struct && !field.IsNil()
}

// clone returns a copy that can be changed, and that shares no memory.
func clone(v reflect.Value) reflect.Value {
	copied := reflect.New(v.Type()).Elem()
	copied.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			copied.Set(reflect.New(v.Type().Elem()))
			copied.Elem().Set(clone(v.Elem()))
		}
	case reflect.Struct:
		for at := range v.NumField() {
			copied.Field(at).Set(clone(v.Field(at)))
		}
	case reflect.Slice:
		if !v.IsNil() {
			copied.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for at := range v.Len() {
				copied.Index(at).Set(clone(v.Index(at)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			copied.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for _, key := range v.MapKeys() {
				copied.SetMapIndex(key, v.MapIndex(key))
			}
		}
	}
	return copied
}
