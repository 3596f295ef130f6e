// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"errors"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/helm"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/test/api/samples"
)

// enum is a field whose schema lists its values.
type enum struct {
	kind, group string
	// path is the way to the field; "[]" stands for an element of a list, "{}" for one of a map.
	path []string
}

func (e enum) String() string {
	return e.kind + "." + e.group + " " + strings.ReplaceAll(strings.Join(e.path, "."), ".[]", "[]")
}

// name returns the last name on the way.
func (e enum) name() string {
	names := slices.DeleteFunc(slices.Clone(e.path), func(part string) bool { return part == "[]" || part == "{}" })
	return names[len(names)-1]
}

// harmless has the fields that need no refusal of a later version's value, each with the reason.
var harmless = map[string]string{
	"AdmissionGrants.alioth.dev hostAccess.{}.ports[].protocol":                                 "the operator writes it; admission compares it with the protocol of a port",
	"HostLinkReport.alioth.dev spec.failures[].type":                                            "a report about links of the type alone: links of the known types have none of it",
	"PodNetwork.multitenancy.acn.azure.com status.status":                                       "the operator writes it; every value but Ready and InUse is not ready",
	"PodNetwork.acn.azure.com status.status":                                                    "the same",
	"PodNetworkInstance.multitenancy.acn.azure.com status.status":                               "the operator writes it; every value but Ready is not ready",
	"PodNetworkInstance.acn.azure.com status.status":                                            "the same",
	"PodNetworkInstance.multitenancy.acn.azure.com status.podNetworkStatuses.{}":                "the operator writes it and does not read it",
	"PodNetworkInstance.acn.azure.com status.podNetworkStatuses.{}":                             "the same",
	"MultitenantPodNetworkConfig.multitenancy.acn.azure.com status.status":                      "the operator writes it, and again where it differs",
	"MultiTenantPodNetworkConfig.acn.azure.com status.status":                                   "the same",
	"MultitenantPodNetworkConfig.multitenancy.acn.azure.com status.interfaceInfos[].deviceType": "the operator writes it and does not read it",
	"MultitenantPodNetworkConfig.multitenancy.acn.azure.com status.interfaceInfos[].ibStatus":   "the operator writes it and does not read it",
	"NodeInfo.multitenancy.acn.azure.com status.deviceInfos[].deviceType":                       "the daemon writes it and does not read it",
}

// TestKinds_LaterVersionValue_LeftOutOrFaulted sets each field whose schema lists values to one
// that no version has. The object is left out, or it has the fault in its conditions, and the
// message has the field, the value and the remedy. Conditions are left out: by the convention
// of Kubernetes each status but True is not true.
func TestKinds_LaterVersionValue_LeftOutOrFaulted(t *testing.T) {
	const later = "Later-than-this"
	seen := map[string]bool{}
	for _, field := range enums(t) {
		if slices.Contains(field.path, "conditions") {
			continue
		}
		seen[field.String()] = true
		if harmless[field.String()] != "" {
			continue
		}
		kind, sample := sampleOf(t, field)
		row, err := convert(t, kind, sample)
		if err != nil || faultOf(row) != "" {
			t.Errorf("%s: the sample is refused: %v %s", field, err, faultOf(row))
			continue
		}
		set(sample.Object, field.path, later)
		row, err = convert(t, kind, sample)
		reported := faultOf(row)
		if err != nil {
			reported = err.Error()
			if _, ok := errors.AsType[*values.UnknownError](err); !ok {
				t.Errorf("%s: the error has another type than of values.Known: %v", field, err)
			}
		}
		if !strings.Contains(reported, field.name()) || !strings.Contains(reported, later) || !strings.Contains(reported, ": use ") {
			t.Errorf("%s: the value %s is not refused, or without field and remedy: %q", field, later, reported)
		}
	}
	for name := range harmless {
		if !seen[name] {
			t.Errorf("%q is no field that lists its values: remove it from the table", name)
		}
	}
	if len(seen) < 2*len(harmless) {
		t.Errorf("only %d fields were found", len(seen))
	}
}

// enums finds the fields in the schemas of all kinds.
func enums(t *testing.T) (found []enum) {
	t.Helper()
	names, err := fs.Glob(helm.CRDs(), "*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(helm.CRDs(), name)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			walk(version.Schema.OpenAPIV3Schema, nil, func(path []string) {
				found = append(found, enum{crd.Spec.Names.Kind, crd.Spec.Group, slices.Clone(path)})
			})
		}
	}
	return found
}

func walk(schema *apiextensionsv1.JSONSchemaProps, path []string, visit func(path []string)) {
	if len(schema.Enum) > 0 {
		visit(path)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		walk(&property, append(path, name), visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(schema.Items.Schema, append(path, "[]"), visit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walk(schema.AdditionalProperties.Schema, append(path, "{}"), visit)
	}
}

// sampleOf returns the descriptor of the kind that has the field, and its sample.
func sampleOf(t *testing.T, field enum) (*descriptor.Kind, *unstructured.Unstructured) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, sample := range samples.All(t) {
		gvk := sample.GroupVersionKind()
		if gvk.Group != field.group || gvk.Kind != field.kind {
			continue
		}
		for _, kind := range kinds.All() {
			if of, _, err := scheme.ObjectKinds(kind.Object); err != nil {
				t.Fatal(err)
			} else if of[0].GroupKind() == gvk.GroupKind() {
				return kind, sample
			}
		}
	}
	t.Fatalf("%s: its kind has no sample, or no descriptor: list it as harmless if nothing reads it", field)
	return nil, nil
}

func convert(t *testing.T, kind *descriptor.Kind, sample *unstructured.Unstructured) (any, error) {
	t.Helper()
	object := kind.NewObject()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sample.Object, object); err != nil {
		t.Fatal(err)
	}
	return kind.Row(object.DeepCopyObject().(kube.Object))
}

// faultOf returns the text of a row about fields that can't be used.
func faultOf(row any) string {
	if row == nil {
		return ""
	}
	invalid := reflect.ValueOf(row).Elem().FieldByName("Invalid")
	if !invalid.IsValid() {
		return ""
	}
	return invalid.String()
}

// set sets the field at path, and makes the missing parts of the path.
func set(object map[string]any, path []string, value string) {
	put(object, path, value)
}

func put(at any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	switch path[0] {
	case "[]":
		list, _ := at.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = put(list[0], path[1:], value)
		return list
	default:
		fields, _ := at.(map[string]any)
		if fields == nil {
			fields = map[string]any{}
		}
		name := strings.Replace(path[0], "{}", "key", 1)
		fields[name] = put(fields[name], path[1:], value)
		return fields
	}
}
