// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// TestEveryKindOfTheAPIHasADescriptor leaves out AdmissionGrants, which are written and
// have no rows.
func TestEveryKindOfTheAPIHasADescriptor(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{"AdmissionGrants": true}
	for _, kind := range All() {
		described[kind.Name] = true
	}
	known := scheme.KnownTypes(v1alpha1.GroupVersion)
	for name := range known {
		if _, isKind := known[name+"List"]; isKind && !described[name] {
			t.Errorf("%s has no descriptor", name)
		}
	}
}
