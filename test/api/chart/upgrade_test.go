// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/api/chart"
)

// changedChart returns a copy of the chart whose CRD of VPCs has another short
// name.
func changedChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "alioth")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "helm", "alioth"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "files", "crds", "alioth.dev_vpcs.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "    singular: vpc\n", "    shortNames:\n    - vpcnew\n    singular: vpc\n", 1)
	if changed == string(text) {
		t.Fatal("the CRD of VPCs is not what this test changes")
	}
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestUpgrade_CRDChanged_UpdatedInPlace(t *testing.T) {
	server := bareServer(t)
	helm := chart.New(t, root, server.Config())
	if err := helm.Upgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, server)
	read := func() *apiextensionsv1.CustomResourceDefinition {
		crd := new(apiextensionsv1.CustomResourceDefinition)
		if err := c.Get(t.Context(), client.ObjectKey{Name: "vpcs.alioth.dev"}, crd); err != nil {
			t.Fatal(err)
		}
		return crd
	}
	before := read()
	upgrade(t, helm.WithChart(changedChart(t)), "an upgrade with a changed CRD")
	after := read()
	if names := after.Spec.Names.ShortNames; len(names) != 1 || names[0] != "vpcnew" {
		t.Errorf("short names are %q after the upgrade, want those of the new CRD", names)
	}
	if after.UID != before.UID {
		t.Error("the CRD was made anew, and every VPC with it")
	}
}

// TestUninstall_DefaultValues_CRDsKept leaves out the hook, which needs nodes.
func TestUninstall_DefaultValues_CRDsKept(t *testing.T) {
	want := installed(t)
	server := bareServer(t)
	helm := chart.New(t, root, server.Config())
	for range 2 { // the second time over the objects kept by the first
		upgrade(t, helm, "an installation")
		if _, err := helm.Run(t.Context(), "uninstall", chart.Release, "--namespace", chart.Namespace, "--no-hooks"); err != nil {
			t.Fatal(err)
		}
		var left apiextensionsv1.CustomResourceDefinitionList
		if err := newClient(t, server).List(t.Context(), &left); err != nil {
			t.Fatal(err)
		}
		if len(left.Items) != len(want) {
			t.Errorf("%d CRDs are left, want those of %v", len(left.Items), want)
		}
	}
}
