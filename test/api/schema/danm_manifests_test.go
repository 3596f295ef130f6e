// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/annotations"
	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	"github.com/alioth-net/alioth/test/api/chart"
)

// manifests returns the text of each of DANM's manifests by the name of its file.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../e2e/testdata/danm/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d manifests: %v", len(files), err)
	}
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(text)
	}
	return texts
}

// TestDANMManifests_AppliedTwice_StoredUnchanged applies DANM's manifests, twice each, in both
// groups. The API server must know each field and store each value.
func TestDANMManifests_AppliedTwice_StoredUnchanged(t *testing.T) {
	for file, text := range manifests(t) {
		for _, group := range bothGroups {
			t.Run(file+"/"+group, func(t *testing.T) {
				objects, err := chart.Decode(strings.ReplaceAll(text, danmv1.GroupVersion.Group, group))
				if err != nil {
					t.Fatal(err)
				}
				for _, object := range objects {
					applyUnchanged(t, object)
					checkInterfacesOf(t, object)
				}
			})
		}
	}
}

// applyUnchanged applies an object as `kubectl apply --server-side` does, for the time of
// the test.
func applyUnchanged(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	c := newClient(t)
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	for _, round := range []string{"first", "second"} {
		stored := object.DeepCopy()
		err := c.Patch(t.Context(), stored, client.RawPatch(types.ApplyPatchType, text), client.FieldOwner("kubectl"), client.FieldValidation("Strict"))
		if err != nil {
			t.Errorf("%s %s, %s time: %v", object.GetKind(), object.GetName(), round, err)
			return
		}
		if round == "first" && object.GetKind() != "Namespace" { // no controller here would end it
			t.Cleanup(func() { deleteIt(t, c, stored) })
		}
		for _, field := range missing("", object.Object, stored.Object) {
			t.Errorf("%s %s is stored without its %s", object.GetKind(), object.GetName(), field)
		}
	}
}

// missing returns the fields of a manifest that an object lacks, or has another value of.
func missing(path string, want, got any) []string {
	switch want := want.(type) {
	case map[string]any:
		have, _ := got.(map[string]any)
		var all []string
		for key, value := range want {
			all = append(all, missing(path+"."+key, value, have[key])...)
		}
		return all
	case []any:
		have, _ := got.([]any)
		if len(have) != len(want) {
			return []string{path}
		}
		var all []string
		for i := range want {
			all = append(all, missing(fmt.Sprintf("%s[%d]", path, i), want[i], have[i])...)
		}
		return all
	}
	wanted, err := json.Marshal(want)
	had, err2 := json.Marshal(got)
	if err != nil || err2 != nil || string(wanted) != string(had) {
		return []string{path}
	}
	return nil
}

// checkInterfacesOf requires that the interfaces annotation of a Pod or a Deployment can
// be read: the schema of Kubernetes does not check annotations.
func checkInterfacesOf(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	of := object.GetAnnotations()
	if object.GetKind() == "Deployment" {
		of, _, _ = unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "annotations")
	}
	text, _, err := annotations.InterfacesOf(of)
	if err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	list, err := annotations.ParseInterfaces(text)
	if err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	if runs := object.GetKind() == "Deployment" || object.GetKind() == "Pod"; runs && len(list) == 0 {
		t.Errorf("%s %s requests no interfaces", object.GetKind(), object.GetName())
	}
}
