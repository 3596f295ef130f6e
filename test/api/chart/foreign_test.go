// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/api/chart"
)

// foreignCRD is a CRD as another project brings it, without rules.
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

// TestCRDsOfOthersStayAsTheyAre: DANM and Multus bring kinds of the same names. Neither an
// installation nor an upgrade, with and without the area, nor an uninstallation that keeps
// nothing may touch them.
func TestCRDsOfOthersStayAsTheyAre(t *testing.T) {
	server := bareServer(t)
	c, helm := newClient(t, server), chart.New(t, root, server.Config())
	foreign := []*apiextensionsv1.CustomResourceDefinition{
		foreignCRD("danmnets", "danm.k8s.io", "DanmNet"),
		foreignCRD("network-attachment-definitions", "k8s.cni.cncf.io", "NetworkAttachmentDefinition"),
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
	const own = "tenantnetworks.danm.k8s.io"
	for _, step := range []struct {
		name string
		args []string
		// own is whether the kinds that others did not bring are there.
		own bool
	}{
		{"an installation", nil, true},
		{"an upgrade", nil, true},
		{"an upgrade that keeps no CRD", []string{"--set", "crds.keep=false"}, true},
		{"an upgrade without the area", []string{"--set", "crds.keep=false,multiNetwork.enabled=false"}, false},
		{"an upgrade with it", []string{"--set", "crds.keep=false"}, true},
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
		if got := exists(own); got != step.own {
			t.Errorf("%s: %s is there: %t, want %t", step.name, own, got, step.own)
		}
	}
}

// upgrade installs the chart or upgrades it.
func upgrade(t *testing.T, helm *chart.Helm, name string, args ...string) {
	t.Helper()
	if err := helm.Upgrade(t.Context(), args...); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
