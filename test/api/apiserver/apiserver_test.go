// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"os"
	"testing"

	"k8s.io/client-go/discovery"

	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/needs"
)

func TestServer_Stopped_NothingLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	needs.Kubernetes(t)
	server, err := apiserver.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	client := discovery.NewDiscoveryClientForConfigOrDie(server.Config())
	for group, want := range map[string]int{"alioth.dev/v1alpha1": 21, "arktos.futurewei.com/v1": 1, "danm.k8s.io/v1": 4, "danm.io/v1": 4} {
		list, err := client.ServerResourcesForGroupVersion(group)
		if err != nil {
			t.Fatalf("discover %s: %v", group, err)
		}
		kinds := map[string]bool{}
		for _, r := range list.APIResources {
			kinds[r.Kind] = true
		}
		if len(kinds) != want {
			t.Errorf("%s serves %v, want %d kinds", group, kinds, want)
		}
	}
	server.Stop()
	if _, err := client.ServerVersion(); err == nil {
		t.Error("a stopped server still answers")
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 0 {
		t.Errorf("a stopped server left %v behind", left)
	}
}
