// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// schemas makes the schemas of types. The schemas of types of package wire are components.
type schemas struct {
	comments   comments
	components object
}

// of returns the schema of a value's type.
func (s *schemas) of(value any) object { return s.schema(reflect.TypeOf(value)) }

func (s *schemas) schema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return s.of(wire.OrchestratorContext{}) // the only value that is read later
	case t.PkgPath() == reflect.TypeFor[wire.Response]().PkgPath():
		return s.component(t)
	}
	return s.inline(t)
}

// component returns a reference, and adds its target.
func (s *schemas) component(t reflect.Type) object {
	name := t.Name()
	if _, ok := s.components[name]; !ok {
		s.components[name] = object{} // in case the type has itself in it
		made := s.inline(t)
		describe(made, s.comments.types[name])
		if values := s.comments.constants[name]; len(values) > 0 {
			s.enumerate(made, values)
		}
		s.components[name] = made
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (s *schemas) inline(t reflect.Type) object {
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		return object{"type": "integer"}
	case reflect.Uint8:
		return object{"type": "integer", "minimum": 0, "maximum": 255}
	case reflect.Pointer:
		return s.schema(t.Elem())
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.schema(t.Elem())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": []any{"array", "null"}, "items": s.schema(t.Elem())}
	case reflect.Struct:
		properties := object{}
		s.properties(t, properties)
		return object{"type": "object", "properties": properties}
	}
	panic(fmt.Sprintf("a field of type %s: package wire has values that a client can read", t))
}

// properties adds the properties of a struct, with the properties of embedded structs.
func (s *schemas) properties(t reflect.Type, properties object) {
	for field := range t.Fields() {
		if field.Anonymous {
			s.properties(field.Type, properties)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := s.schema(field.Type)
		describe(property, s.comments.fields[t.Name()+"."+field.Name])
		properties[name] = property
	}
}

// enumerate adds the values of constants.
func (s *schemas) enumerate(schema object, values []constant) {
	var enum []any
	var names, texts []string
	for _, value := range values {
		enum = append(enum, value.value)
		names = append(names, value.name)
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("- %v: %s", value.value, value.comment)))
	}
	schema["enum"], schema["x-enum-varnames"] = enum, names
	text, _ := schema["description"].(string)
	schema["description"] = text + "\n\n" + strings.Join(texts, "\n")
}

func describe(schema object, comment string) {
	if comment != "" {
		schema["description"] = comment
	}
}
