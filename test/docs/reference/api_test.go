// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reference_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/alioth-net/alioth/helm"
	"github.com/alioth-net/alioth/test/api/samples"
	"github.com/alioth-net/alioth/test/docs/reference"
)

const root = "../../.."

func TestReferencePage_API_MatchesDefinitions(t *testing.T) {
	text, err := reference.API(helm.CRDs(), samples.All(t))
	if err != nil {
		t.Fatal(err)
	}
	reference.Compare(t, root, "docs/reference/api.md", text)
}

const definition = `
spec:
  group: a.example
  names: {kind: VPC, plural: vpcs, shortNames: [v]}
  scope: Cluster
  versions:
  - name: v1
    storage: true
    selectableFields: [{jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        description: |-
          VPC is
          one.
        properties:
          kind: {type: string}
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, maximum: 9, default: 3, description: How large}
              names:
                type: array
                maxItems: 2
                items: {type: string, enum: [a, "b"], pattern: "a|b"}
                x-kubernetes-validations: [{rule: "true", message: no <x>}]
              parts: {type: array, items: {type: object, properties: {at: {type: string, minLength: 1}}}}
`

func TestAPI_Field_TypeDefaultAndLimits(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "a.example/v1", "kind": "VPC", "spec": map[string]any{"size": int64(2)}, "status": map[string]any{"left": "out"},
	}}
	files := fstest.MapFS{"a.yaml": {Data: []byte(definition)}}
	text, err := reference.API(files, []*unstructured.Unstructured{object})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| [VPC](#vpc) | a.example/v1 | cluster | v |\n",
		"\n### VPC\nVPC is one.\n",
		"Fields for `--field-selector`: `spec.size`.\n",
		"| `spec` | object |  |  |  |\n",
		"| `spec.size` * | integer | `3` | 1 to 9 | How large |\n",
		"| `spec.names` | list of string |  | at most 2 entries; no &lt;x>; each: `a`, `b`; each: `a\\|b` |  |\n",
		"| `spec.parts[].at` | string |  | not empty |  |\n",
		"```yaml\napiVersion: a.example/v1\nkind: VPC\nspec:\n  size: 2\n```\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "left") {
		t.Error("the example has a status")
	}
	if _, err := reference.API(files, nil); err == nil {
		t.Error("a kind without an example is accepted")
	}
	other := strings.Replace(definition, "kind: VPC", "kind: Unknown", 1)
	if _, err := reference.API(fstest.MapFS{"a.yaml": {Data: []byte(other)}}, nil); err == nil {
		t.Error("a kind that nobody writes is accepted")
	}
}
