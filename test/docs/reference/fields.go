// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// field is a row of the page.
type field struct {
	path, typed, defaults, limits, meaning string
	required                               bool
}

// fieldsOf returns the fields of a version but for the fields that every object has.
func fieldsOf(version apiextensionsv1.CustomResourceDefinitionVersion) []field {
	schema := version.Schema.OpenAPIV3Schema.DeepCopy()
	for _, common := range []string{"apiVersion", "kind", "metadata"} {
		delete(schema.Properties, common)
	}
	return below("", schema)
}

// below returns the fields of an object, each before those below it.
func below(path string, schema *apiextensionsv1.JSONSchemaProps) (list []field) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		at := strings.TrimPrefix(path+"."+name, ".")
		list = append(list, field{
			path: at, typed: typeOf(&property), defaults: defaultOf(&property), limits: strings.Join(limitsOf(&property), "; "),
			meaning: sentence(property.Description), required: slices.Contains(schema.Required, name),
		})
		list = append(list, inside(at, &property)...)
	}
	return list
}

// inside returns the fields of the elements of a list or map, or of an object.
func inside(at string, schema *apiextensionsv1.JSONSchemaProps) []field {
	switch {
	case schema.Items != nil && schema.Items.Schema != nil:
		return inside(at+"[]", schema.Items.Schema)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return inside(at+".<key>", schema.AdditionalProperties.Schema)
	}
	return below(at, schema)
}

func typeOf(schema *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case schema.XIntOrString:
		return "integer or string"
	case schema.Items != nil && schema.Items.Schema != nil:
		return "list of " + typeOf(schema.Items.Schema)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(schema.AdditionalProperties.Schema)
	case schema.Type == "object" && len(schema.Properties) == 0:
		return "any object"
	case schema.Type == "":
		return "any"
	case schema.Format != "":
		return schema.Type + " (" + schema.Format + ")"
	}
	return schema.Type
}

func defaultOf(schema *apiextensionsv1.JSONSchemaProps) string {
	if schema.Default == nil {
		return ""
	}
	return "`" + string(schema.Default.Raw) + "`"
}

// limitsOf returns the requirements of the API server for a value, and for the elements of a list.
func limitsOf(schema *apiextensionsv1.JSONSchemaProps) (list []string) {
	list = append(list, values(schema)...)
	list = append(list, between("", schema.Minimum, schema.Maximum)...)
	list = append(list, between("characters", schema.MinLength, schema.MaxLength)...)
	list = append(
		list,
		between("entries", cmp.Or(schema.MinItems, schema.MinProperties), cmp.Or(schema.MaxItems, schema.MaxProperties))...)
	if schema.Pattern != "" {
		list = append(list, "`"+schema.Pattern+"`")
	}
	for _, rule := range schema.XValidations {
		list = append(list, cmp.Or(rule.Message, "`"+rule.Rule+"`"))
	}
	if schema.Items != nil && schema.Items.Schema != nil && len(schema.Items.Schema.Properties) == 0 {
		for _, limit := range limitsOf(schema.Items.Schema) {
			list = append(list, "each: "+limit)
		}
	}
	return list
}

func values(schema *apiextensionsv1.JSONSchemaProps) []string {
	if len(schema.Enum) == 0 {
		return nil
	}
	var list []string
	for _, value := range schema.Enum {
		list = append(list, "`"+strings.Trim(string(value.Raw), `"`)+"`")
	}
	return []string{strings.Join(list, ", ")}
}

// between returns a range in words.
func between[T int64 | float64](of string, least, most *T) []string {
	switch {
	case least != nil && most == nil && of != "" && *least == 1:
		return []string{"not empty"}
	case least != nil && most != nil && *least == *most:
		return []string{strings.TrimSpace(fmt.Sprintf("exactly %v %s", *least, of))}
	case least != nil && most != nil:
		return []string{strings.TrimSpace(fmt.Sprintf("%s to %s %s", number(*least), number(*most), of))}
	case least != nil:
		return []string{strings.TrimSpace(fmt.Sprintf("at least %s %s", number(*least), of))}
	case most != nil:
		return []string{strings.TrimSpace(fmt.Sprintf("at most %s %s", number(*most), of))}
	}
	return nil
}

func number[T int64 | float64](value T) string { return fmt.Sprint(int64(value)) }

// sentence returns a description in one line.
func sentence(text string) string { return strings.Join(strings.Fields(text), " ") }
