// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/samples"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// schemaChanges is how long a changed schema may take to be in force.
const schemaChanges = time.Minute

// loose takes the rules for values out of a schema, and leaves its fields.
func loose(schema *apiextensionsv1.JSONSchemaProps) {
	schema.Pattern, schema.Enum, schema.XValidations = "", nil, nil
	schema.MaxLength, schema.MinLength, schema.MaxItems, schema.MinItems = nil, nil, nil, nil
	schema.Maximum, schema.Minimum = nil, nil
	for name, property := range schema.Properties {
		loose(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		loose(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		loose(schema.AdditionalProperties.Schema)
	}
}

// changeSchemas changes the schemas of all CRDs.
func changeSchemas(t *testing.T, c client.Client, change func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := c.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		change(&list.Items[i])
		if err := c.Update(t.Context(), &list.Items[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEarlierObject_RefusedByPresentSchema_Deletable has an object of each kind that today's schema
// refuses and an earlier one has stored. Its labels and finalizers can change, and it can be
// deleted.
func TestEarlierObject_RefusedByPresentSchema_Deletable(t *testing.T) {
	needs.Kubernetes(t)
	own, err := apiserver.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kinds.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(own.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: named("customer")}); err != nil {
		t.Fatal(err)
	}
	today := map[string]apiextensionsv1.CustomResourceDefinitionSpec{}
	changeSchemas(t, c, func(crd *apiextensionsv1.CustomResourceDefinition) {
		today[crd.Name] = *crd.Spec.DeepCopy()
		for i := range crd.Spec.Versions {
			object := crd.Spec.Versions[i].Schema.OpenAPIV3Schema
			names := slices.DeleteFunc(object.XValidations, func(rule apiextensionsv1.ValidationRule) bool {
				return !strings.HasPrefix(rule.Message, "metadata.name") // which earlier schemas have, too
			})
			loose(object)
			object.XValidations = names
		}
	})
	stored := storeUnsound(t, c, scheme)
	changeSchemas(t, c, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec = today[crd.Name] })
	for _, object := range stored {
		again := object.DeepCopy()
		again.SetResourceVersion("")
		again.SetUID("")
		waits.True(t, schemaChanges, object.GetKind()+" is refused", func() bool {
			return apierrors.IsInvalid(c.Create(t.Context(), again.DeepCopy(), client.DryRunAll))
		})
		if object.GetName() == oldGateway {
			changed := object.DeepCopy()
			set(changed.Object, []any{"spec", "cidrs"}, []any{"10.43.1.8/29", "fd10::/64"})
			if err := c.Update(t.Context(), changed, client.DryRunAll); err != nil {
				t.Errorf("a subnet whose gateway was accepted can't grow: %v", err)
			}
		}
		endObject(t, c, object)
	}
	if len(stored) < 15 {
		t.Errorf("%d kinds alone have an object that is refused", len(stored))
	}
}

// storeUnsound stores an object of each kind that has no row, where the schemas are loose.
func storeUnsound(t *testing.T, c client.Client, scheme *runtime.Scheme) (stored []*unstructured.Unstructured) {
	t.Helper()
	for _, sample := range samples.All(t) {
		kind := kindOf(t, scheme, sample)
		if kind == nil || !ofAlioth(sample) {
			continue
		}
		for _, v := range variants(sample) {
			if rowError(kind, v.object) == nil || tolerated[v.field] != "" {
				continue
			}
			waits.True(t, schemaChanges, v.path+" is stored", func() bool {
				err := c.Create(t.Context(), v.object)
				return err == nil || strings.Contains(err.Error(), "metadata.name")
			})
			if v.object.GetResourceVersion() == "" {
				continue // an object with these values has no possible name
			}
			stored = append(stored, v.object)
			break
		}
	}
	return append(stored, storeUseless(t, c)...)
}

// oldGateway is a subnet whose gateway is its first address, which some kernels accept.
const oldGateway = "first"

// storeUseless stores objects whose values were accepted once, but could not work.
func storeUseless(t *testing.T, c client.Client) (stored []*unstructured.Unstructured) {
	t.Helper()
	for _, text := range []string{
		`{"apiVersion": "arktos.futurewei.com/v1", "kind": "Network", "metadata": {"namespace": "customer", "name": "` + strings.Repeat("n", 64) + `"}, "spec": {"type": "vpc", "vpcID": "v"}}`,
		`{"apiVersion": "arktos.futurewei.com/v1", "kind": "Network", "metadata": {"namespace": "customer", "name": "misspelled"}, "spec": {"type": "mizzar", "vpcID": "v"}}`,
		`{"apiVersion": "alioth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "broadcast"}, "spec": {"vpc": "v", "cidrs": ["10.43.1.8/29"], "gateway": ["10.43.1.15"]}}`,
		`{"apiVersion": "alioth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "` + oldGateway + `"}, "spec": {"vpc": "v", "cidrs": ["10.43.1.8/29"], "gateway": ["10.43.1.8"]}}`,
		`{"apiVersion": "alioth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "hostbits"}, "spec": {"vpc": "v.w", "cidrs": ["10.43.3.0/29"], "reserved": ["10.43.3.5/29"]}}`,
		`{"apiVersion": "alioth.dev/v1alpha1", "kind": "ExternalPool", "metadata": {"name": "hostbits"}, "spec": {"cidrs": ["192.0.2.17/28"]}}`,
	} {
		object := new(unstructured.Unstructured)
		if err := object.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		stored = append(stored, object)
	}
	return stored
}

// endObject changes the metadata of an object, and deletes it.
func endObject(t *testing.T, c client.Client, object *unstructured.Unstructured) {
	t.Helper()
	object.SetLabels(map[string]string{"a": "b"})
	object.SetFinalizers([]string{v1alpha1.Finalizer})
	if err := c.Update(t.Context(), object); err != nil {
		t.Errorf("%s: add a label and a finalizer: %v", object.GetKind(), err)
		return
	}
	if err := c.Delete(t.Context(), object); err != nil {
		t.Errorf("%s: delete: %v", object.GetKind(), err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Errorf("%s: %v", object.GetKind(), err)
		return
	}
	object.SetFinalizers(nil)
	if err := c.Update(t.Context(), object); err != nil {
		t.Errorf("%s: remove the finalizer: %v", object.GetKind(), err)
	}
}
