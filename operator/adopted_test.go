// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	_ "embed" // for adopted.yaml
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/needs"
	"github.com/alioth-net/alioth/test/waits"
)

// adopted are objects as another version of their CRDs has stored them, one of each kind that
// users write and a controller changes: with unknown fields, empty texts and nulls.
//
//go:embed testdata/adopted.yaml
var adopted string

// anything is a schema that keeps every field, as CRDs of earlier versions had it.
func anything(version *apiextensionsv1.CustomResourceDefinitionVersion) {
	version.Schema = &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)},
	}
	version.SelectableFields = nil
}

// TestOperator_ObjectsOfForeignVersions_ServedAndDeletable stores objects under foreign CRDs, installs
// Alioth's, and starts the operator. Each object must become Ready, keep its empty texts, and
// be gone after its deletion. A controller that updated a whole object would lose these texts;
// the rules for specs that must not change refuse that, also in the deletion.
func TestOperator_ObjectsOfForeignVersions_ServedAndDeletable(t *testing.T) {
	needs.Kubernetes(t)
	own, err := apiserver.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	r := adopts(t, own)
	objects := r.storeForeign(t)
	cfg := testConfig()
	cfg.NodeIPAM, cfg.NodeIPAMInfraSubnet = true, "adopted"
	r.operate(cfg)
	for _, object := range objects {
		want := object.DeepCopy()
		waits.Until(t, within, "the "+nameOf(object)+" is Ready", func() error {
			if err := r.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			return hasReadyCondition(object)
		})
		for _, path := range emptyTexts(want.Object, nil) {
			if text, found, err := unstructured.NestedString(object.Object, path...); err != nil || !found || text != "" {
				t.Errorf("the %s has lost the empty text of %s: %q, %v", nameOf(object), strings.Join(path, "."), text, err)
			}
		}
	}
	for _, object := range slices.Backward(objects) {
		r.delete(object)
		r.gone(object)
	}
}

func adopts(t *testing.T, own *apiserver.Server) *rig {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(own.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, Client: c, config: own.Config()}
	r.create(newNode("node-1"), newNamespace("adopted", ""))
	return r
}

// storeForeign stores the objects while the CRDs take anything, and installs the CRDs again.
func (r *rig) storeForeign(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	today := map[string]apiextensionsv1.CustomResourceDefinitionSpec{}
	r.changeCRDs(func(crd *apiextensionsv1.CustomResourceDefinition) {
		today[crd.Name] = *crd.Spec.DeepCopy()
		for i := range crd.Spec.Versions {
			anything(&crd.Spec.Versions[i])
		}
	})
	objects := adoptedObjects(t)
	for _, object := range objects {
		keeps := func(want bool) {
			waits.Until(t, within, fmt.Sprintf("the API server keeps unknown fields of the %s: %t", nameOf(object), want), func() error {
				trial := object.DeepCopy()
				trial.SetName("trial")
				if err := r.Create(t.Context(), trial, client.DryRunAll); err != nil && want {
					return err
				}
				if kept := hasUnknown(trial); kept != want {
					return fmt.Errorf("kept: %t", kept)
				}
				return nil
			})
		}
		keeps(true)
		r.create(object)
	}
	r.changeCRDs(func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec = today[crd.Name] })
	for _, object := range objects {
		waits.Until(t, within, "the CRD of the "+nameOf(object)+" is Alioth's", func() error {
			if err := r.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			if hasUnknown(object) {
				return fmt.Errorf("it still has unknown fields")
			}
			return nil
		})
	}
	return objects
}

// changeCRDs changes all CRDs. The API server writes their status meanwhile.
func (r *rig) changeCRDs(change func(*apiextensionsv1.CustomResourceDefinition)) {
	r.t.Helper()
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := r.List(r.t.Context(), &list); err != nil {
		r.t.Fatal(err)
	}
	for i := range list.Items {
		crd := &list.Items[i]
		change(crd)
		spec := crd.Spec
		waits.Until(r.t, within, "CRD "+crd.Name+" is changed", func() error {
			if err := r.Get(context.WithoutCancel(r.t.Context()), client.ObjectKeyFromObject(crd), crd); err != nil {
				return err
			}
			crd.Spec = spec
			return r.Update(r.t.Context(), crd)
		})
	}
}

// adoptedObjects returns the objects of the file. Objects of a kind in two groups are returned for
// both groups.
func adoptedObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(adopted, "\n---\n") {
		var content map[string]any
		if err := yaml.Unmarshal([]byte(document), &content); err != nil {
			t.Fatal(err)
		}
		encoded, err := runtime.Encode(unstructured.UnstructuredJSONScheme, &unstructured.Unstructured{Object: content})
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(encoded); err != nil { // numbers as the API server has them
			t.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

// hasUnknown reports whether an object has a field "unknown". Metadata names the fields of
// managers.
func hasUnknown(object *unstructured.Unstructured) bool {
	content := object.DeepCopy().Object
	delete(content, "metadata")
	return strings.Contains(fmt.Sprint(content), "unknown")
}

func nameOf(object *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s of %s", object.GetKind(), object.GetName(), object.GroupVersionKind().Group)
}

func hasReadyCondition(object *unstructured.Unstructured) error {
	var status struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	fields, _, _ := unstructured.NestedMap(object.Object, "status")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &status); err != nil {
		return err
	}
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ReadyCondition) {
		return fmt.Errorf("its conditions are %+v", status.Conditions)
	}
	return nil
}

// emptyTexts lists the paths of the empty texts of an object that are in no list.
func emptyTexts(fields map[string]any, below []string) (paths [][]string) {
	for name, value := range fields {
		path := append(slices.Clone(below), name)
		switch value := value.(type) {
		case string:
			if value == "" {
				paths = append(paths, path)
			}
		case map[string]any:
			paths = append(paths, emptyTexts(value, path)...)
		}
	}
	return paths
}
