// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// names returns kind, namespace and name of every object of a manifest.
func names(t *testing.T, manifest []byte) [][3]string {
	t.Helper()
	var all [][3]string
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if object.Object != nil {
			all = append(all, [3]string{object.GetKind(), object.GetNamespace(), object.GetName()})
		}
	}
}

// A reader of the README runs the demo first and applies the manifests of the page about pods after
// it. They must neither change the demo's tenants nor lack a namespace.
func TestPodPageManifests_AfterDemo_Applicable(t *testing.T) {
	page, err := os.ReadFile("../../docs/tenants/pods.md")
	if err != nil {
		t.Fatal(err)
	}
	demo := map[[3]string]bool{}
	for _, manifest := range [][]byte{tenantsManifest, podsManifest} {
		for _, name := range names(t, manifest) {
			demo[name] = true
		}
	}
	created := map[string]bool{}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(page, -1)
	for _, block := range blocks {
		for _, name := range names(t, block[1]) {
			kind, namespace := name[0], name[1]
			if demo[name] {
				t.Errorf("%v of the page is an object of the demo too", name)
			}
			if kind == "Namespace" {
				created[name[2]] = true
			} else if namespace != "" && !created[namespace] {
				t.Errorf("%v of the page is in a namespace that no manifest before it creates", name)
			}
		}
	}
	if len(demo) == 0 || len(created) == 0 {
		t.Errorf("%d objects of the demo, %d namespaces of the page: want some", len(demo), len(created))
	}
}
