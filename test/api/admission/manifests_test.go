// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/chart"
)

// TestDANMManifests_TenantConfigOffers_Accepted creates the objects of DANM's manifests as an
// administrator, where a TenantConfig offers their devices and numbers. The schemas are tested in
// test/api/schema.
func TestDANMManifests_TenantConfigOffers_Accepted(t *testing.T) {
	admin := start(t)
	offer(t, &v1alpha1.TenantNetworkGrant{TenantConfig: "tenant-config", Devices: []string{"ens4", "ens5"}, NetworkTypes: []string{"flannel", "calico"}})
	files, err := filepath.Glob(filepath.Join(root, "test/e2e/testdata/danm/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d manifests: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := chart.Decode(string(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			t.Run(filepath.Base(file)+"/"+object.GetKind()+" "+object.GetNamespace()+" "+object.GetName(), func(t *testing.T) {
				if object.GetKind() == "Namespace" { // the others need it
					create(t, admin, object)
					return
				}
				eventually(t, func(ctx context.Context) error {
					return as(t, clusterAdmin()).Create(ctx, object.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict"))
				})
			})
		}
	}
}
