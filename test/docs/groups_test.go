// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// TestCommands_KindOfSeveralGroups_GroupNamed: kubectl looks at one of the groups only, so a
// command without the group may find no objects.
func TestCommands_KindOfSeveralGroups_GroupNamed(t *testing.T) {
	several := kindsOfSeveralGroups(t)
	if !slices.Contains(several, "danmnets") {
		t.Fatalf("the kinds of several groups are %v", several)
	}
	all, _ := read(t)
	for _, page := range all {
		if isPast(page) {
			continue
		}
		for _, command := range page.Commands() {
			if command.Words[0] != "kubectl" {
				continue
			}
			for _, word := range command.Words[1:] {
				for kind := range strings.SplitSeq(word, ",") {
					kind, _, _ = strings.Cut(kind, "/")
					if slices.Contains(several, kind) {
						t.Errorf("%s: %s is a kind of several groups: write %s.GROUP", page.At(command.Line), kind, kind)
					}
				}
			}
		}
	}
}

// kindsOfSeveralGroups returns the names, in the plural and the singular, of kinds that CRDs of
// two groups have.
func kindsOfSeveralGroups(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "helm/alioth/files/crds/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("find the CRDs: %v, %d files", err, len(files))
	}
	groups := map[string]int{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		groups[crd.Spec.Names.Plural]++
		if crd.Spec.Names.Singular != crd.Spec.Names.Plural {
			groups[crd.Spec.Names.Singular]++
		}
	}
	var several []string
	for name, count := range groups {
		if count > 1 {
			several = append(several, name)
		}
	}
	return several
}
