// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package samples has one object of each kind that the product reads, with the fields that it
// reads as far as possible.
package samples

import (
	_ "embed" // for samples.yaml
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
)

//go:embed samples.yaml
var text string

// twins are groups with the kinds of others.
var twins = map[string]string{
	danmv1.GroupVersion.Group:    danmiov1.GroupVersion.Group,
	"multitenancy.acn.azure.com": "acn.azure.com",
}

// All returns the samples. The first is the namespace of the others. A kind that two groups have
// alike is in the file once.
func All(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		encoded, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			t.Fatal(err)
		}
		if err := object.UnmarshalJSON(encoded); err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
		if group := twins[object.GroupVersionKind().Group]; group != "" && !strings.HasPrefix(object.GetKind(), "Multi") &&
			object.GetKind() != "NodeInfo" {
			twin := object.DeepCopy()
			twin.SetGroupVersionKind(
				schema.GroupVersionKind{Group: group, Version: object.GroupVersionKind().Version, Kind: object.GetKind()},
			)
			all = append(all, twin)
		}
	}
	return all
}
