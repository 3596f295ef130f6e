// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	acnv1alpha1 "github.com/alioth-net/alioth/api/acn/v1alpha1"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
)

// TestKinds_EachAPIKind_HasDescriptor leaves out AdmissionGrants, which are written and
// have no rows.
func TestKinds_EachAPIKind_HasDescriptor(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	described := map[schema.GroupVersionKind]bool{v1alpha1.GroupVersion.WithKind("AdmissionGrants"): true}
	for _, kind := range All() {
		types, _, err := scheme.ObjectKinds(kind.Object)
		if err != nil {
			t.Fatal(err)
		}
		described[types[0]] = true
	}
	groups := []schema.GroupVersion{
		v1alpha1.GroupVersion, danmv1.GroupVersion, danmiov1.GroupVersion,
		multitenancyv1alpha1.GroupVersion, acnv1alpha1.GroupVersion,
	}
	for _, group := range groups {
		known := scheme.KnownTypes(group)
		for name := range known {
			if _, isKind := known[name+"List"]; isKind && !described[group.WithKind(name)] {
				t.Errorf("%s of %s has no descriptor", name, group)
			}
		}
	}
}

// TestKinds_EachRow_OfOneKind has kinds that share a table.
func TestKinds_EachRow_OfOneKind(t *testing.T) {
	for _, kind := range All() {
		row, err := kind.Row(kind.NewObject())
		if err != nil || row == nil {
			continue // its objects have a value that is always set
		}
		for _, other := range All() {
			if other.Has(row) != (other == kind) {
				t.Errorf("a row of %T: of %T is %v", kind.Object, other.Object, other.Has(row))
			}
		}
		if OfRow(row) != kind {
			t.Errorf("the kind of a row of %T is %T", kind.Object, OfRow(row).Object)
		}
	}
}
