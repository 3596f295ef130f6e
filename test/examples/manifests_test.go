// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/alioth-net/alioth/test/images"
)

// root of the work tree, seen from this package's folder.
const root = "../.."

// object has the fields of an object that the checks of manifests read.
type object struct {
	Kind     string
	Metadata struct{ Namespace, Name string }
	Spec     struct{ Containers []corev1.Container }
}

// name returns the object's place in the cluster.
func (o object) name() string {
	return o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
}

// manifests returns the objects of files.
func manifests(t *testing.T, pattern string) map[string][]object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("find %s: %v, %d files", pattern, err, len(files))
	}
	found := map[string][]object{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
		for {
			var one object
			if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if one.Kind != "" {
				found[file] = append(found[file], one)
			}
		}
	}
	return found
}

// Examples are applied to one lab at the same time, and after the demo.
func TestExamples_Objects_NoneShared(t *testing.T) {
	owners := map[string]string{}
	for _, objects := range manifests(t, "test/demo/manifests/*.yaml") {
		for _, one := range objects {
			owners[one.name()] = "the demo"
		}
	}
	for file, objects := range manifests(t, "docs/examples/*/*.yaml") {
		for _, one := range objects {
			if owner, there := owners[one.name()]; there {
				t.Errorf("%s of %s is an object of %s too", one.name(), file, owner)
			}
			owners[one.name()] = file
		}
	}
}

// A pod in a namespace of another example would end with that example.
func TestExamples_Namespaces_MadeByExample(t *testing.T) {
	made := map[string]bool{"default": true}
	examples := manifests(t, "docs/examples/*/*.yaml")
	for file, objects := range examples {
		for _, one := range objects {
			if one.Kind == "Namespace" {
				made[filepath.Dir(file)+" "+one.Metadata.Name] = true
			}
		}
	}
	for file, objects := range examples {
		for _, one := range objects {
			namespace := one.Metadata.Namespace
			if namespace != "" && !made[namespace] && !made[filepath.Dir(file)+" "+namespace] {
				t.Errorf("%s of %s is in a namespace that the example does not make", one.name(), file)
			}
		}
	}
}

// The image is public, and the lab, which reaches no registry, has one of that name.
func TestExamples_Pods_LabImageUsed(t *testing.T) {
	pods := 0
	for file, objects := range manifests(t, "docs/examples/*/*.yaml") {
		for _, one := range objects {
			for _, container := range one.Spec.Containers {
				pods++
				if "docker.io/library/"+container.Image != images.BusyBox {
					t.Errorf("%s of %s runs %s, and the lab has %s", one.name(), file, container.Image, images.BusyBox)
				}
			}
		}
	}
	if pods == 0 {
		t.Error("no example has a pod")
	}
}

// Each example can be read, is found from both READMEs, and is cleaned up.
func TestExamples_Each_ListedAndCleaned(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(root, "docs/examples/[0-9]*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("find the examples: %v, %d folders", err, len(folders))
	}
	index, front := text(t, "docs/examples/README.md"), text(t, "README.md")
	if count := fmt.Sprintf("[%d examples]", len(folders)); !strings.Contains(front, count) {
		t.Errorf("README.md does not have %q", count)
	}
	for _, folder := range folders {
		name := filepath.Base(folder)
		if link := "](" + name + "/README.md)"; !strings.Contains(index, link) {
			t.Errorf("docs/examples/README.md has no link %s", link)
		}
		if link := "](docs/examples/" + name + "/README.md)"; !strings.Contains(front, link) {
			t.Errorf("README.md has no link %s", link)
		}
		steps, err := Read(text(t, "docs/examples/"+name+"/README.md"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cleans := false
		for _, step := range steps {
			cleans = cleans || strings.Contains(step.Commands, "kubectl delete -f . ")
		}
		if !cleans {
			t.Errorf("%s deletes nothing at its end", name)
		}
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
