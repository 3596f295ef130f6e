// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package downgrade

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/waits"
)

var api apiserver.Shared

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard()) // clients log nothing that a test would miss
	os.Exit(api.Run(m))
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, arktosv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(api.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFieldsOfANewerReleaseAreNamed gives the CRD of VPCs a field that this release lacks, as
// a newer release might, and sets it.
func TestFieldsOfANewerReleaseAreNamed(t *testing.T) {
	c := newClient(t)
	plain := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "vpc-plain"}, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.1.0.0/16"}, AllowedTenants: []string{"a"}}}
	if err := c.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), c); err != nil {
		t.Fatalf("objects of this release: %v", err)
	}
	extend(t, c)
	if err := Check(t.Context(), c); err != nil {
		t.Fatalf("a field that no object has: %v", err)
	}
	newer := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"cidrs": []any{"10.2.0.0/16"}, "allowedTenants": []any{"a"}, "ofTheFuture": "x"},
	}}
	newer.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("VPC"))
	newer.SetName("vpc-newer")
	waits.Until(t, time.Minute, "the API server to know the new field", func() error {
		tried := newer.DeepCopy()
		if err := c.Create(t.Context(), tried, client.DryRunAll); err != nil {
			return err
		}
		if _, kept, _ := unstructured.NestedString(tried.Object, "spec", "ofTheFuture"); !kept {
			return errors.New("it drops the field")
		}
		return nil
	})
	if err := c.Create(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	err := Check(t.Context(), c)
	if err == nil {
		t.Fatal("the field of the newer release was not found")
	}
	for _, want := range []string{"VPC", "vpc-newer", "spec.ofTheFuture", "nothing was changed"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), plain.Name) {
		t.Errorf("%q names an object without the field", err)
	}
}

// TestValuesOfANewerReleaseAreNamed permits a value of VPCs that this release lacks, as a newer
// release might, and sets it.
func TestValuesOfANewerReleaseAreNamed(t *testing.T) {
	c := newClient(t)
	change(t, c, func(spec map[string]apiextensionsv1.JSONSchemaProps) {
		egress := spec["egress"]
		egress.Enum = append(egress.Enum, apiextensionsv1.JSON{Raw: []byte(`"OfTheFuture"`)})
		spec["egress"] = egress
	})
	newer := &v1alpha1.VPC{
		ObjectMeta: metav1.ObjectMeta{Name: "vpc-newer-value"},
		Spec:       v1alpha1.VPCSpec{CIDRs: []string{"10.3.0.0/16"}, AllowedTenants: []string{"a"}, Egress: "OfTheFuture"},
	}
	waits.Until(t, time.Minute, "the API server to know the new value", func() error { return c.Create(t.Context(), newer.DeepCopy()) })
	err := Check(t.Context(), c)
	if err == nil {
		t.Fatal("the value of the newer release was not found")
	}
	for _, want := range []string{"VPC", newer.Name, `spec.egress "OfTheFuture"`, "use None or Masquerade", "nothing was changed"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if err := c.Delete(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
}

// TestEachKindIsConverted requires the conversion by which unknown values are found.
func TestEachKindIsConverted(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds() {
		object, err := scheme.New(kind)
		if err != nil {
			t.Fatal(err)
		}
		if descriptorOf(object) == nil {
			t.Errorf("%s has no descriptor", kind.Kind)
		}
	}
}

// extend adds a field to the CRD of VPCs.
func extend(t *testing.T, c client.Client) {
	t.Helper()
	change(t, c, func(spec map[string]apiextensionsv1.JSONSchemaProps) {
		spec["ofTheFuture"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
}

// change changes the fields of the spec in the CRD of VPCs.
func change(t *testing.T, c client.Client, by func(spec map[string]apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "vpcs.alioth.dev"}, crd); err != nil {
		t.Fatal(err)
	}
	by(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties)
	if err := c.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
}
