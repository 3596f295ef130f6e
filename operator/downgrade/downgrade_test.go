// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package downgrade

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/kinds"
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

// TestDowngradeCheck_FieldOfNewerRelease_Named gives the CRD of VPCs a field that this release lacks, as
// a newer release might, and sets it.
func TestDowngradeCheck_FieldOfNewerRelease_Named(t *testing.T) {
	c := newClient(t)
	plain := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "vpc-plain"}, Spec: v1alpha1.VPCSpec{CIDRs: []string{"10.1.0.0/16"}, AllowedTenants: []string{"a"}}}
	if err := c.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), c); err != nil {
		t.Fatalf("objects of this release: %v", err)
	}
	extend(t, c, "vpcs.alioth.dev")
	if err := Check(t.Context(), c); err != nil {
		t.Fatalf("a field that no object has: %v", err)
	}
	newer := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"cidrs": []any{"10.2.0.0/16"}, "allowedTenants": []any{"a"}, "ofTheFuture": "x"},
	}}
	newer.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("VPC"))
	newer.SetName("vpc-newer")
	awaitField(t, c, newer)
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

// TestDowngradeCheck_ForeignCRD_NamedIfChartMade: the CRD of another project may
// have fields that no release of Alioth knows, and an upgrade does not change it.
func TestDowngradeCheck_ForeignCRD_NamedIfChartMade(t *testing.T) {
	c := newClient(t)
	const crd = "nodenetworkconfigurationpolicies.nmstate.io"
	extend(t, c, crd)
	policy := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"desiredState": map[string]any{"any": "thing"}, "ofTheFuture": "x"}}}
	policy.SetGroupVersionKind(nmstatev1.GroupVersion.WithKind("NodeNetworkConfigurationPolicy"))
	policy.SetName("newer")
	awaitField(t, c, policy)
	if err := c.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.Background(), policy); err != nil {
			t.Error(err)
		}
	})
	if err := Check(t.Context(), c); err != nil && strings.Contains(err.Error(), "Policy") {
		t.Errorf("a CRD of another project: %v", err)
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: crd}}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	label := []byte(`{"metadata":{"labels":{"app.kubernetes.io/name":"alioth"}}}`)
	if err := c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, label)); err != nil {
		t.Fatal(err)
	}
	err := Check(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), `NodeNetworkConfigurationPolicy newer: unknown field "spec.ofTheFuture"`) ||
		strings.Contains(err.Error(), "desiredState") {
		t.Errorf("a CRD of the chart: %v", err)
	}
}

// ofPrograms are the kinds that the check leaves out, because programs write them, or because of
// another reason.
var ofPrograms = map[string]string{
	"Address": "operator", "AdmissionGrants": "operator", "AttachmentClaim": "operator", "DomainClaim": "operator", "ExternalAddress": "operator",
	"HostLink": "operator", "HostLinkReport": "daemon", "HostVNIClaim": "operator", "NodeRoles": "daemon", "RoleMember": "operator",
	"PolicyIdentity": "operator", "RollCall": "operator and daemon", "ScaledEndpoint": "operator", "Usage": "operator", "VNIClaim": "operator",
	"NodeInfo": "daemon", "MultitenantPodNetworkConfig": "operator", "MultiTenantPodNetworkConfig": "operator",
	"NodeNetworkConfigurationEnactment": "daemon", "NodeNetworkState": "daemon",
	"NetworkAttachmentDefinition": "its schema is that of the standard, without a field of Alioth's",
}

// TestDowngradeCheck_EachWrittenKind_CheckedAndPermitted: the hook of the chart may read the kind.
func TestDowngradeCheck_EachWrittenKind_CheckedAndPermitted(t *testing.T) {
	files, err := filepath.Glob("../../helm/alioth/files/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d CRDs, %v", len(files), err)
	}
	hook, err := os.ReadFile("../../helm/alioth/templates/upgrade.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known := map[schema.GroupKind]string{}
	for _, kind := range written() {
		known[kind.GroupKind()] = kind.crd
	}
	for _, file := range files {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		text, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(text, crd)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		name, checks := known[kind]
		delete(known, kind)
		switch {
		case !checks && ofPrograms[kind.Kind] == "":
			t.Errorf("%s: the hook does not check it: add it to written(), or to ofPrograms with the reason", kind)
		case checks && ofPrograms[kind.Kind] != "":
			t.Errorf("%s is checked, and in ofPrograms too", kind)
		case name != "" && name != crd.Name:
			t.Errorf("%s has the CRD %s, and not %s", kind, crd.Name, name)
		case checks && !regexp.MustCompile(`(?m)^    resources: \[.*\b`+crd.Spec.Names.Plural+`\b`).Match(hook):
			t.Errorf("the hook of the chart may not list %s", crd.Name)
		case name != "" && !strings.Contains(string(hook), "      - "+name+"\n"):
			t.Errorf("the hook of the chart may not read the CRD %s", name)
		}
	}
	for kind := range known {
		t.Errorf("%s has no CRD", kind)
	}
}

// awaitField waits until the API server keeps the field of the future in an object.
func awaitField(t *testing.T, c client.Client, object *unstructured.Unstructured) {
	t.Helper()
	waits.Until(t, time.Minute, "the API server to know the new field", func() error {
		tried := object.DeepCopy()
		if err := c.Create(t.Context(), tried, client.DryRunAll); err != nil {
			return err
		}
		if _, kept, _ := unstructured.NestedString(tried.Object, "spec", "ofTheFuture"); !kept {
			return errors.New("it drops the field")
		}
		return nil
	})
}

// TestDowngradeCheck_ValueOfNewerRelease_Named permits a value of VPCs that this release lacks, as a newer
// release might, and sets it.
func TestDowngradeCheck_ValueOfNewerRelease_Named(t *testing.T) {
	c := newClient(t)
	change(t, c, "vpcs.alioth.dev", func(spec map[string]apiextensionsv1.JSONSchemaProps) {
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

// TestDowngradeCheck_EachKind_HasConversion requires that each kind has the conversion that finds unknown values.
func TestDowngradeCheck_EachKind_HasConversion(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := kinds.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range written() {
		object, err := scheme.New(kind.GroupVersionKind)
		if err != nil {
			t.Fatal(err)
		}
		if descriptorOf(object) == nil {
			t.Errorf("%s has no descriptor", kind.Kind)
		}
	}
}

// extend adds a field to all versions of a CRD.
func extend(t *testing.T, c client.Client, name string) {
	t.Helper()
	change(t, c, name, func(spec map[string]apiextensionsv1.JSONSchemaProps) {
		spec["ofTheFuture"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
}

// change changes the fields of the spec in all versions of a CRD.
func change(t *testing.T, c client.Client, name string, by func(spec map[string]apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
		t.Fatal(err)
	}
	for _, version := range crd.Spec.Versions {
		by(version.Schema.OpenAPIV3Schema.Properties["spec"].Properties)
	}
	if err := c.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
}
