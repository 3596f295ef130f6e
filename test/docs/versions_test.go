// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/alioth-net/alioth/api/version"
)

// text returns a file of the repository.
func text(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestPages_GoVersion_EqualsChecks: the first command of a newcomer refuses an older one.
func TestPages_GoVersion_EqualsChecks(t *testing.T) {
	wanted := utilversion.MustParseGeneric("0.0")
	directive := regexp.MustCompile(`(?m)^go ([0-9.]+)$`)
	// As test/cluster/host/check.sh does.
	for _, pattern := range []string{"go.mod", "test/cluster/*/go.mod", "test/tools/go.mod"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			if found := directive.FindStringSubmatch(text(t, name)); found != nil {
				if one := utilversion.MustParseGeneric(found[1]); wanted.LessThan(one) {
					wanted = one
				}
			}
		}
	}
	pattern := regexp.MustCompile(`Go (?:\| )?(1\.[0-9.]*[0-9]) or newer`)
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "docs/install/demo.md", "docs/install/install.md"} {
		found := pattern.FindAllStringSubmatch(text(t, page), -1)
		if len(found) == 0 {
			t.Errorf("%s does not say which Go it needs", page)
		}
		for _, match := range found {
			if found := match[1]; found != wanted.String() {
				t.Errorf("%s names Go %s: the checks of make want %s", page, found, wanted)
			}
		}
	}
}

// TestPages_ImageVersions_NoneOlder: an image of an older release lacks features that the pages
// describe.
func TestPages_ImageVersions_NoneOlder(t *testing.T) {
	ours := utilversion.MustParseSemantic(version.Number)
	pattern := regexp.MustCompile(`(?:/alioth:|image\.tag=|tag: ?"?)v?([0-9]+\.[0-9]+\.[0-9]+)`)
	all, _ := read(t)
	for _, page := range all {
		if strings.HasPrefix(page.Path, "docs/design/") || page.Path == "CHANGELOG.md" {
			continue
		}
		for _, match := range pattern.FindAllStringSubmatch(text(t, page.Path), -1) {
			image := utilversion.MustParseGeneric(match[1])
			if image.Major() < ours.Major() || image.Major() == ours.Major() && image.Minor() < ours.Minor() {
				t.Errorf("%s has %s, and the page is about %s: leave the number out", page.Path, match[0], version.Number)
			}
		}
	}
}

// TestFirstPages_ProjectRules_Linked reads the pages that newcomers read first.
func TestFirstPages_ProjectRules_Linked(t *testing.T) {
	_, byPath := read(t)
	for _, page := range []string{"README.md", "CONTRIBUTING.md", index} {
		for _, rules := range []string{".github/SECURITY.md", ".github/CODE_OF_CONDUCT.md"} {
			if links(byPath[page], rules) == 0 {
				t.Errorf("%s has no link to %s", page, rules)
			}
		}
	}
}
