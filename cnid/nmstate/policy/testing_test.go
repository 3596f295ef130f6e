// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"
)

// document reads a state document.
func document(t *testing.T, text string) map[string]any {
	t.Helper()
	var value map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// words is a document as JSON, which is equal for equal ones.
func words(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// same compares a document with one in YAML.
func same(t *testing.T, what string, got map[string]any, want string) {
	t.Helper()
	expected := document(t, want)
	if expected == nil {
		expected = map[string]any{}
	}
	if got == nil {
		got = map[string]any{}
	}
	if words(t, got) != words(t, expected) {
		t.Errorf("%s:\n got %s\nwant %s", what, words(t, got), words(t, expected))
	}
}
