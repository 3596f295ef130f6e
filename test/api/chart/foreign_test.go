// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/api/chart"
)

// foreignCRD returns a CRD as another project brings it, without rules.
func foreignCRD(plural, group, kind string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: plural + "." + group, Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
}

// TestForeignCRDs_InstallUpgradeUninstall_Unchanged: DANM, Multus, kubernetes-nmstate and Azure CNS
// bring kinds of the same names. Neither an installation nor an upgrade, with and without the area,
// nor an uninstallation that keeps nothing may touch them.
func TestForeignCRDs_InstallUpgradeUninstall_Unchanged(t *testing.T) {
	server := bareServer(t)
	c, helm := newClient(t, server), chart.New(t, root, server.Config())
	foreign := []*apiextensionsv1.CustomResourceDefinition{
		foreignCRD("danmnets", "danm.k8s.io", "DanmNet"),
		foreignCRD("network-attachment-definitions", "k8s.cni.cncf.io", "NetworkAttachmentDefinition"),
		foreignCRD("nodenetworkstates", "nmstate.io", "NodeNetworkState"),
		foreignCRD("nodeinfo", "multitenancy.acn.azure.com", "NodeInfo"),
	}
	for _, crd := range foreign {
		if err := c.Create(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
	}
	// exists reports whether a CRD that others did not bring is there.
	exists := func(name string) bool {
		err := c.Get(t.Context(), client.ObjectKey{Name: name}, new(apiextensionsv1.CustomResourceDefinition))
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	own := []string{"tenantnetworks.danm.k8s.io", "nodenetconfpolicies.nmstate.io", "podnetworks.multitenancy.acn.azure.com", "nodeinfo.acn.azure.com"}
	const areas = areaOn + "," + nodeIPAMOn
	for _, step := range []struct {
		name string
		args []string
		// own is whether the kinds that others did not bring are there.
		own bool
	}{
		{"an installation", []string{"--set", areas}, true},
		{"an upgrade", []string{"--set", areas}, true},
		{"an upgrade that keeps no CRD", []string{"--set", areas + ",crds.keep=false"}, true},
		{"an upgrade without the areas", []string{"--set", "crds.keep=false,multiNetwork.enabled=false"}, false},
		{"an upgrade with them", []string{"--set", areas + ",crds.keep=false"}, true},
		{"an uninstallation", nil, false},
	} {
		if step.name == "an uninstallation" {
			if _, err := helm.Run(t.Context(), "uninstall", chart.Release, "--namespace", chart.Namespace, "--no-hooks", "--wait"); err != nil {
				t.Fatal(err)
			}
		} else {
			upgrade(t, helm, step.name, step.args...)
		}
		for _, crd := range foreign {
			after := new(apiextensionsv1.CustomResourceDefinition)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), after); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if after.UID != crd.UID || after.DeletionTimestamp != nil {
				t.Errorf("%s: %s was deleted or made anew", step.name, crd.Name)
			}
			if diff := cmp.Diff(crd.Spec, after.Spec); diff != "" {
				t.Errorf("%s: %s (-before +after):\n%s", step.name, crd.Name, diff)
			}
			if diff := cmp.Diff(crd.Annotations, after.Annotations); diff != "" || len(after.Labels) != 0 {
				t.Errorf("%s: metadata of %s has labels %v and annotations (-before +after):\n%s", step.name, crd.Name, after.Labels, diff)
			}
		}
		for _, name := range own {
			if got := exists(name); got != step.own {
				t.Errorf("%s: %s is there: %t, want %t", step.name, name, got, step.own)
			}
		}
	}
}

// TestForeignCRD_AdoptedByRelease_ObjectsKept: the notes of the chart say so, for users who leave
// kubernetes-nmstate. The objects stay.
func TestForeignCRD_AdoptedByRelease_ObjectsKept(t *testing.T) {
	server := bareServer(t)
	c, helm := newClient(t, server), chart.New(t, root, server.Config())
	crd := foreignCRD("nodenetworkstates", "nmstate.io", "NodeNetworkState")
	crd.Spec.Scope, crd.Spec.Versions[0].Name = apiextensionsv1.ClusterScoped, "v1beta1"
	if err := c.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	upgrade(t, helm, "an installation", "--set", areaOn)
	notes, err := helm.Run(t.Context(), "get", "notes", chart.Release, "--namespace", chart.Namespace)
	if want := "kubectl annotate --overwrite crd " + crd.Name + " "; err != nil || strings.Count(notes, "kubectl annotate") != 1 ||
		!strings.Contains(notes, want) {
		t.Errorf("the notes are, with error %v, want %q in them:\n%s", err, want, notes)
	}
	given := client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"metadata":{"annotations":{"meta.helm.sh/release-name":%q,"meta.helm.sh/release-namespace":%q},"labels":{"app.kubernetes.io/managed-by":"Helm"}}}`,
		chart.Release, chart.Namespace))
	if err := c.Patch(t.Context(), crd, given); err != nil {
		t.Fatal(err)
	}
	upgrade(t, helm, "an upgrade", "--set", areaOn, "--force-conflicts")
	after := new(apiextensionsv1.CustomResourceDefinition)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(crd), after); err != nil {
		t.Fatal(err)
	}
	status := after.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	if _, ok := status.Properties["desiredStateHash"]; after.UID != crd.UID || !ok {
		t.Errorf("the CRD is made anew (%t), or its status has only %v", after.UID != crd.UID, status.Properties)
	}
}

// upgrade installs the chart or upgrades it.
func upgrade(t *testing.T, helm *chart.Helm, name string, args ...string) {
	t.Helper()
	if err := helm.Upgrade(t.Context(), args...); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
