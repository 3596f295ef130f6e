// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestNetworkAttachmentDefinition_FieldsOfSpecification_Accepted: an object without a spec is the
// non-delegating form, whose network its annotations name.
func TestNetworkAttachmentDefinition_FieldsOfSpecification_Accepted(t *testing.T) {
	c := newClient(t)
	for _, tt := range []struct {
		name    string
		content map[string]any
		want    string
	}{
		{"a configuration", map[string]any{"spec": map[string]any{"config": `{"cniVersion": "0.3.1", "type": "bridge"}`}}, ""},
		{"an empty spec", map[string]any{"spec": map[string]any{}}, ""},
		{"no spec", map[string]any{}, ""},
		{"a configuration that is no text", map[string]any{"spec": map[string]any{"config": int64(5)}}, "spec.config"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: tt.content}
			object.SetAPIVersion("k8s.cni.cncf.io/v1")
			object.SetKind("NetworkAttachmentDefinition")
			object.SetNamespace("default")
			object.SetName("a-bridge-network")
			check(t, c.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict")), tt.want)
		})
	}
}
