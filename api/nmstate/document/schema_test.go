// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// field is a field of the schema: its path, and a document with this field and the fields that
// must not be missing beside it.
type field struct {
	path     string
	kind     reflect.Kind
	document func(value any) any
	// second is document with the second name of the field, nil without one.
	second func(value any) any
}

// schema returns all fields of a document.
func schema() []field {
	var all []field
	collect(&all, "", reflect.TypeFor[State](), func(value any) any { return value })
	return all
}

func collect(all *[]field, path string, of reflect.Type, wrap func(any) any) {
	switch of.Kind() {
	case reflect.Pointer:
		collect(all, path, of.Elem(), wrap)
	case reflect.Slice:
		*all = append(*all, field{path: path, kind: of.Kind(), document: wrap})
		collect(all, path+"[0]", of.Elem(), func(value any) any { return wrap([]any{value}) })
	case reflect.Struct:
		*all = append(*all, field{path: path, kind: of.Kind(), document: wrap})
		for member := range of.Fields() {
			name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
			at := len(*all)
			collect(all, strings.TrimPrefix(path+"."+name, "."), member.Type, func(value any) any { return wrap(complete(of, name, value)) })
			if alias := member.Tag.Get("alias"); alias != "" {
				(*all)[at].second = func(value any) any { return wrap(complete(of, alias, value)) }
			}
		}
	default:
		*all = append(*all, field{path: path, kind: of.Kind(), document: wrap})
	}
}

// complete returns an object with a field, and right values in the fields that must not be missing.
func complete(of reflect.Type, name string, value any) map[string]any {
	object := map[string]any{}
	for _, needed := range layouts()[of].required {
		object[needed] = map[bool]any{true: "x", false: 1}[of.Field(layouts()[of].index[needed]).Type.Kind() == reflect.String]
	}
	object[name] = value
	return object
}

// wrongValues are of other kinds than a field of one kind, each with the text that the message
// has of it.
func wrongValues(kind reflect.Kind) map[string]any {
	text, number, list, object, fraction := `"perhaps"`, "7", `[1]`, `{"a":1}`, "1.5"
	values := map[string]any{text: "perhaps", number: 7, list: []any{1}, object: map[string]any{"a": 1}, fraction: 1.5}
	switch kind {
	case reflect.String:
		delete(values, text)
		delete(values, number)
		values["true"] = true
	case reflect.Bool:
	case reflect.Slice:
		delete(values, list)
	case reflect.Struct, reflect.Map:
		delete(values, object)
	default:
		delete(values, number)
		values["true"] = true
	}
	return values
}

// ofGo are words that only a reader of the source understands.
var ofGo = regexp.MustCompile(`\b(u?int(8|16|32|64)?|bool|float64|struct|string|nil|unmarshal|json|reflect|Go)\b|document\.|map\[|&|0x[0-9a-f]{6,}`)

func TestParse_WrongValue_RefusedWithPath(t *testing.T) {
	fields := schema()
	const least = 100
	if len(fields) < least {
		t.Fatalf("the schema has %d fields", len(fields))
	}
	for _, f := range fields {
		for wanted, value := range wrongValues(f.kind) {
			text, err := json.Marshal(f.document(value))
			if err != nil {
				t.Fatal(err)
			}
			_, err = ParseJSON(text)
			start := fmt.Sprintf("state document: %s: %s: want ", strings.TrimPrefix(f.path, "."), wanted)
			if f.path == "" {
				start = "state document: the document: " + wanted + ": want "
			}
			switch {
			case err == nil || !strings.HasPrefix(err.Error(), start):
				t.Errorf("%s:\n got %v\nwant %s...", text, err, start)
			case ofGo.MatchString(strings.ReplaceAll(err.Error(), f.path, "")):
				t.Errorf("%s: %q is of the source: %v", text, ofGo.FindString(err.Error()), err)
			}
		}
	}
}

func TestParse_RequiredFieldMissing_Refused(t *testing.T) {
	for text, want := range map[string]string{
		`interfaces: [{mtu: 1500}]`:                                                                          "interfaces[0].name",
		`interfaces: [{name: eth0, ipv4: {address: [{ip: 192.0.2.1}]}}]`:                                     "interfaces[0].ipv4.address[0].prefix-length",
		`interfaces: [{name: eth0, ipv4: {address: [{prefix-length: 24}]}}]`:                                 "interfaces[0].ipv4.address[0].ip",
		`interfaces: [{name: br0, bridge: {port: [{stp-priority: 5}]}}]`:                                     "interfaces[0].bridge.port[0].name",
		`interfaces: [{name: eth0, ethernet: {sr-iov: {vfs: [{trust: true}]}}}]`:                             "interfaces[0].ethernet.sr-iov.vfs[0].id",
		`interfaces: [{name: br0, bridge: {port: [{name: a, vlan: {trunk-tags: [{id-range: {min: 5}}]}}]}}]`: "interfaces[0].bridge.port[0].vlan.trunk-tags[0].id-range.max",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want+": missing: it is needed") {
			t.Errorf("%s: got %v, want %s to be missed", text, err, want)
		}
	}
}

// TestParse_EachField_RightValueAccepted reads a document with a right value of each kind. So the
// wrong values are refused because they are wrong.
func TestParse_EachField_RightValueAccepted(t *testing.T) {
	right := map[reflect.Kind]any{reflect.String: "x", reflect.Bool: true, reflect.Slice: []any{}, reflect.Struct: map[string]any{}, reflect.Map: map[string]any{}}
	for _, f := range schema() {
		value, ok := right[f.kind]
		if !ok {
			value = 7
		}
		text, err := json.Marshal(f.document(value))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseJSON(text); err != nil && !slices.Contains([]reflect.Kind{reflect.Struct}, f.kind) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
