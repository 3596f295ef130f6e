// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/test/docs/pages"
)

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z0-9-]+):(?:[^=]|$)`)
	setValue   = regexp.MustCompile(`^--set(?:-string|-json|-file)?(?:=|$)`)
	// namedValue is inline code with a value of the chart: a.b, a.b=c or a.b: c.
	namedValue = regexp.MustCompile(`^([a-z][A-Za-z0-9]*(?:\.[a-z][A-Za-z0-9]*)+)(?:[:=].*)?$`)
)

// noValues are names that begin as values of the chart do.
var noValues = map[string]string{"operator.alioth.dev": "the value of a label of EndpointSlices"}

// TestPages_MakeTargets_Exist: pages name only targets that the Makefile has.
func TestPages_MakeTargets_Exist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, found := range makeTarget.FindAllStringSubmatch(string(text), -1) {
		targets[found[1]] = true
	}
	all, _ := read(t)
	named := 0
	for _, page := range all {
		if isPast(page) {
			continue
		}
		for _, command := range page.Commands() {
			if command.Words[0] != "make" {
				continue
			}
			for _, word := range command.Words[1:] {
				if strings.ContainsAny(word, "=<") || strings.HasPrefix(word, "-") {
					continue
				}
				named++
				if !targets[word] {
					t.Errorf("%s: the Makefile has no target %s", page.At(command.Line), word)
				}
			}
		}
	}
	if named < 20 {
		t.Errorf("pages name %d targets, want 20 or more", named)
	}
}

// TestPages_ChartValues_Exist: pages name only values that values.yaml has, in commands of helm and
// in inline code.
func TestPages_ChartValues_Exist(t *testing.T) {
	values := chartValues(t)
	roots := slices.Collect(maps.Keys(values))
	all, _ := read(t)
	named := 0
	for _, page := range all {
		for _, command := range page.Commands() {
			for _, value := range setValues(command.Words) {
				named++
				if !hasValue(values, strings.Split(value, ".")) {
					t.Errorf("%s: values.yaml has no %s", page.At(command.Line), value)
				}
			}
		}
		if isPast(page) {
			continue
		}
		for _, span := range page.Spans {
			found := namedValue.FindStringSubmatch(span.Text)
			if found == nil || noValues[found[1]] != "" || strings.HasSuffix(found[1], ".md") || strings.HasSuffix(found[1], ".yaml") {
				continue
			}
			if parts := strings.Split(found[1], "."); slices.Contains(roots, parts[0]) {
				named++
				if !hasValue(values, parts) {
					t.Errorf("%s: values.yaml has no %s", page.At(span.Line), found[1])
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("pages name %d values, want 50 or more", named)
	}
}

// setValues returns the names of the values that a command of helm sets.
func setValues(words []string) (list []string) {
	if words[0] != "helm" {
		return nil
	}
	for i, word := range words {
		if !setValue.MatchString(word) {
			continue
		}
		_, assigned, found := strings.Cut(word, "=")
		if !found && i+1 < len(words) {
			assigned = words[i+1]
		}
		name, _, _ := strings.Cut(assigned, "=")
		name, _, _ = strings.Cut(name, "[")
		list = append(list, name)
	}
	return list
}

func chartValues(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "helm/alioth/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// hasValue reports whether the chart has a value. Below an empty map people may set anything.
func hasValue(values map[string]any, parts []string) bool {
	value, found := values[parts[0]]
	if !found || len(parts) == 1 {
		return found
	}
	below, isMap := value.(map[string]any)
	return isMap && (len(below) == 0 || hasValue(below, parts[1:]))
}

// isPast reports whether a page describes the past: the changelog and design records.
func isPast(page *pages.Page) bool {
	return page.Path == "CHANGELOG.md" || strings.HasPrefix(page.Path, "docs/design/")
}
