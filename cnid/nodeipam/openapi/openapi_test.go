// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/cnid/nodeipam/openapi"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

func TestTheDocumentIsAsGenerated(t *testing.T) {
	want, err := openapi.Document("../wire")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/reference/node-ipam-api.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run: make generate (-want +got):\n%s", diff)
	}
}

// document returns the document as a client reads it.
func document(t *testing.T) map[string]any {
	t.Helper()
	text, err := openapi.Document("../wire")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.UnmarshalStrict(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// visit calls f for every object in a document.
func visit(value any, path string, f func(path string, o map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		f(path, value)
		for key, one := range value {
			visit(one, path+"/"+key, f)
		}
	case []any:
		for i, one := range value {
			visit(one, fmt.Sprint(path, "/", i), f)
		}
	}
}

func TestAllReferencesLeadSomewhereAndAllSchemasAreUsed(t *testing.T) {
	doc := document(t)
	components := doc["components"].(map[string]any)["schemas"].(map[string]any)
	used := map[string]bool{}
	visit(doc, "", func(path string, o map[string]any) {
		ref, ok := o["$ref"].(string)
		if !ok {
			return
		}
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		used[name] = true
		if components[name] == nil {
			t.Errorf("%s refers to %s, which is not there", path, ref)
		}
	})
	for name, schema := range components {
		if !used[name] {
			t.Errorf("nothing uses %s", name)
		}
		if text, _ := schema.(map[string]any)["description"].(string); text == "" {
			t.Errorf("%s has no description", name)
		}
	}
}

func TestEveryOperationIsDescribed(t *testing.T) {
	paths := document(t)["paths"].(map[string]any)
	for _, op := range wire.Operations() {
		methods, _ := paths[op.Path].(map[string]any)
		described, _ := methods[strings.ToLower(op.Method)].(map[string]any)
		if described == nil || described["operationId"] != op.Name || (described["requestBody"] == nil) != (op.Request == nil) {
			t.Errorf("%s %s: %v", op.Method, op.Path, described)
			continue
		}
		for _, code := range op.Codes {
			if !strings.Contains(described["description"].(string), fmt.Sprintf("%d %s", code, code)) {
				t.Errorf("%s lacks the code %d", op.Name, code)
			}
		}
	}
}

func TestCodesAndTheirMeaningsAreInTheDocument(t *testing.T) {
	schema := document(t)["components"].(map[string]any)["schemas"].(map[string]any)["ReturnCode"].(map[string]any)
	enum := schema["enum"].([]any)
	if len(enum) != len(wire.Codes()) {
		t.Errorf("codes: %v", enum)
	}
	for _, code := range wire.Codes() {
		if !strings.Contains(schema["description"].(string), fmt.Sprintf("- %d: ", code)) {
			t.Errorf("code %d has no meaning", code)
		}
	}
}

func TestWithoutTheSourceThereIsNoDocument(t *testing.T) {
	if _, err := openapi.Document(t.TempDir()); err == nil {
		t.Error("a document without a source")
	}
}
