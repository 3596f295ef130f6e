// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// opening and closing enclose a template.
const opening, closing = "{{", "}}"

// Render replaces the templates of a desired state, like {{ capture.base.interfaces.0.name }}, in
// all texts except the names of fields. A text that consists of one template becomes the value
// with its type, be it a list or an object. In a longer text the value has to be a text, a number
// or a boolean. Render does not replace templates inside of captured texts.
//
// An error has the path in the document, the template, and the column in the text. The result
// shares nothing with the inputs.
func Render(desired map[string]any, captures map[string]map[string]any) (map[string]any, error) {
	r := renderer{captures: captures, budget: newBudget()}
	return r.object("", desired)
}

type renderer struct {
	captures map[string]map[string]any
	budget   *budget
}

// value renders the value at a path of the document.
func (r renderer) value(path string, value any) (any, error) {
	switch v := value.(type) {
	case string:
		rendered, err := r.text(v)
		if err != nil {
			return nil, fmt.Errorf("desired state: %s: %w", path, err)
		}
		return rendered, nil
	case map[string]any:
		return r.object(path, v)
	case []any:
		return r.list(path, v)
	default:
		return value, r.budget.spend(1)
	}
}

func (r renderer) object(path string, object map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(object))
	// The order makes the same error of the same document.
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value, err := r.value(below(path, key), object[key])
		if err != nil {
			return nil, err
		}
		out[key] = value
	}
	return out, r.budget.spend(1)
}

func (r renderer) list(path string, list []any) ([]any, error) {
	out := make([]any, len(list))
	for i, element := range list {
		value, err := r.value(below(path, strconv.Itoa(i)), element)
		if err != nil {
			return nil, err
		}
		out[i] = value
	}
	return out, r.budget.spend(1)
}

func below(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// text renders a text with any number of templates.
func (r renderer) text(s string) (any, error) {
	var out strings.Builder
	rest, column := s, 1
	for {
		before, after, found := strings.Cut(rest, opening)
		if !found {
			out.WriteString(rest)
			return out.String(), r.budget.spend(1 + out.Len()/bytesOfValue)
		}
		out.WriteString(before)
		column += utf8.RuneCountInString(before)
		inner, after, found := strings.Cut(after, closing)
		if !found {
			return nil, faultf(column, "the template %s has no closing %s", opening+short(inner), closing)
		}
		template := opening + inner + closing
		value, err := r.template(inner, column+len(opening))
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", short(template), err)
		}
		if template == s {
			return r.budget.copyOf(value)
		}
		if err := r.inline(&out, value); err != nil {
			return nil, fmt.Errorf("template %s: %w", short(template), &fault{column: column, cause: err})
		}
		rest, column = after, column+utf8.RuneCountInString(template)
	}
}

// template is the value of a template without its braces.
func (r renderer) template(inner string, column int) (any, error) {
	reference, err := parseReference(inner, column)
	if err != nil {
		return nil, err
	}
	return resolve(reference, r.captures)
}

// inline writes a value into a longer text.
func (r renderer) inline(out *strings.Builder, value any) error {
	if !isScalar(value) {
		return fmt.Errorf("a text can't contain %s; make the template the whole text", nounOf(value))
	}
	scalar := scalarText(value)
	out.WriteString(scalar)
	// Many templates of one long text must not fill the memory.
	return r.budget.spend(1 + len(scalar)/bytesOfValue)
}

func scalarText(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	n, _ := Number(value)
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// short is a text that fits into a message.
func short(s string) string {
	const most = 100
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}
