// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestNodeIPAMGuide_Objects_Accepted creates the objects as they are written, with strict
// validation.
func TestNodeIPAMGuide_Objects_Accepted(t *testing.T) {
	admin := start(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if err := admin.Create(t.Context(), namespace); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	var made []string
	for _, content := range guideExamples(t, "operate/node-ipam-objects.md") {
		object := &unstructured.Unstructured{Object: content}
		createExample(t, admin, object)
		made = append(made, object.GetKind())
	}
	for _, kind := range []string{"PodNetwork", "PodNetworkInstance", "Pod"} {
		if !slices.Contains(made, kind) {
			t.Errorf("the guide has no example of a %s: %v", kind, made)
		}
	}
}
