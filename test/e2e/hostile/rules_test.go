// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// withoutRules removes all rules for values from the schema of a definition for the time of
// a test. It returns once the API server accepts an object that they refuse.
func (e *env) withoutRules(t *testing.T, definition string, refused client.Object) {
	t.Helper()
	crds := e.Lab.Dynamic().Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	before, err := crds.Get(stage.Within(t, stage.Patience), definition, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	without := before.DeepCopy()
	dropRules(without.Object["spec"])
	applyAsHelm(t, crds, without)
	e.awaitDryRun(t, refused, true)
	t.Cleanup(func() {
		applyAsHelm(t, crds, before)
		e.awaitDryRun(t, refused, false)
	})
}

// applyAsHelm applies a whole object in the name of Helm, which finds no other owner of its
// fields at the next upgrade.
func applyAsHelm(t *testing.T, resource dynamic.ResourceInterface, object *unstructured.Unstructured) {
	t.Helper()
	object = object.DeepCopy()
	manager := ""
	for _, entry := range object.GetManagedFields() {
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			manager = entry.Manager
		}
	}
	for _, written := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", written)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	options := metav1.ApplyOptions{FieldManager: manager, Force: true}
	if _, err := resource.Apply(stage.Within(t, stage.Patience), object.GetName(), object, options); err != nil {
		t.Fatal(err)
	}
}

// awaitDryRun waits until the API server accepts an object, or refuses it.
func (e *env) awaitDryRun(t *testing.T, object client.Object, accepts bool) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), "the changed definition", func(ctx context.Context) (bool, string, error) {
		answer := e.Client.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
		return (answer == nil) == accepts, fmt.Sprint(answer), nil
	})
	if err != nil {
		t.Error(err)
	}
}

// rules are the keys of a schema that refuse values.
var rules = []string{"x-kubernetes-validations", "pattern", "format", "enum", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"}

// dropRules removes the rules from a schema. A field of such a name has a schema of its own,
// which is a map.
func dropRules(part any) {
	switch part := part.(type) {
	case map[string]any:
		for _, rule := range rules {
			if _, field := part[rule].(map[string]any); !field {
				delete(part, rule)
			}
		}
		for _, inner := range part {
			dropRules(inner)
		}
	case []any:
		for _, inner := range part {
			dropRules(inner)
		}
	}
}
