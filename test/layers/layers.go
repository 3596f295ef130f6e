// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package layers holds every package of the repository to the table of layers in layers.yaml,
// and draws the picture of ARCHITECTURE.md from the same table.
package layers

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Module is the import path of the repository.
const Module = "github.com/alioth-net/alioth"

// everything is the word of the table for all layers below, or for all modules.
const everything = "everything"

//go:embed layers.yaml
var text []byte

// Table is the content of layers.yaml.
type Table struct {
	// Groups has the import paths of other modules, by the name of the group.
	Groups map[string][]string `json:"groups"`
	// Layers has the layers from top to bottom.
	Layers []Layer `json:"layers"`
}

// Layer is a set of packages with the same permissions.
type Layer struct {
	Name string `json:"name"`
	// Packages has patterns of folders: "a/b" fits one package, "a/b/*" also all below it.
	Packages []string `json:"packages"`
	// Uses has the names of the layers that the packages may import.
	Uses []string `json:"uses"`
	// Modules has the groups of modules that the packages may import, or the path of a module
	// that is in no group.
	Modules []string `json:"modules"`
	// Pure forbids the packages of the standard library with effects.
	Pure bool `json:"pure"`
	// ForTests marks packages that only tests may import.
	ForTests bool `json:"forTests"`
}

// effects are packages of the standard library that a pure layer does not import.
var effects = []string{"context", "log", "log/slog", "os", "os/exec", "os/signal", "syscall"}

// Read returns the table of the repository.
func Read() (Table, error) {
	var t Table
	if err := yaml.UnmarshalStrict(text, &t); err != nil {
		return Table{}, fmt.Errorf("read layers.yaml: %w", err)
	}
	return t, nil
}

// Check returns the errors of the table itself: names that are missing, and permissions that
// point upward.
func (t Table) Check() (problems []string) {
	below := map[string]bool{}
	for _, l := range slices.Backward(t.Layers) {
		for _, used := range l.Uses {
			if used != everything && !below[used] {
				problems = append(problems, fmt.Sprintf("layer %s uses %s, which is not a layer below it", l.Name, used))
			}
		}
		for _, group := range l.Modules {
			if _, ok := t.Groups[group]; !ok && group != everything && !strings.Contains(group, "/") {
				problems = append(problems, fmt.Sprintf("layer %s uses the modules %s, which is not a group", l.Name, group))
			}
		}
		if below[l.Name] {
			problems = append(problems, fmt.Sprintf("two layers have the name %s", l.Name))
		}
		below[l.Name] = true
	}
	return problems
}

// LayerOf returns the layer of a package, by its folder, and false without one.
func (t Table) LayerOf(folder string) (best Layer, found bool) {
	closest := 0
	for _, l := range t.Layers {
		for _, pattern := range l.Packages {
			if n := fit(pattern, folder); n > closest {
				best, found, closest = l, true, n
			}
		}
	}
	return best, found
}

// fit returns how closely a pattern fits a folder, 0 if it does not. The folder itself fits more
// closely than a tree that begins with it.
func fit(pattern, folder string) int {
	tree, isTree := strings.CutSuffix(pattern, "/*")
	switch {
	case folder == pattern:
		return 2*len(pattern) + 1
	case isTree && (folder == tree || strings.HasPrefix(folder, tree+"/")):
		return 2 * len(tree)
	}
	return 0
}

// Refuse returns the reason why a package must not have an import, and "" where it may.
func (t Table) Refuse(folder, imported string) string {
	layer, ok := t.LayerOf(folder)
	if !ok {
		return fmt.Sprintf("%s is in no layer: add it to test/layers/layers.yaml", folder)
	}
	if own, ok := strings.CutPrefix(imported, Module+"/"); ok {
		return t.refuseOwn(layer, folder, own)
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		if layer.Pure && slices.Contains(effects, imported) {
			return fmt.Sprintf(
				"%s imports %s, and the layer %s is pure: let the caller pass values",
				folder,
				imported,
				layer.Name,
			)
		}
		return ""
	}
	if t.allowsModule(layer, imported) {
		return ""
	}
	return fmt.Sprintf(
		"%s imports %s, and the layer %s may import the modules %v alone",
		folder,
		imported,
		layer.Name,
		layer.Modules,
	)
}

// refuseOwn is Refuse for an import of the repository.
func (t Table) refuseOwn(layer Layer, folder, own string) string {
	other, ok := t.LayerOf(own)
	switch {
	case !ok:
		return fmt.Sprintf("%s is in no layer: add it to test/layers/layers.yaml", own)
	case layer.ForTests, other.Name == layer.Name:
		return ""
	case other.ForTests && !slices.Contains(layer.Uses, other.Name):
		return fmt.Sprintf("%s imports %s, which is for tests alone", folder, own)
	case slices.Contains(layer.Uses, other.Name), slices.Contains(layer.Uses, everything) && t.above(layer, other):
		return ""
	}
	return fmt.Sprintf("%s imports %s, and the layer %s may not use the layer %s", folder, own, layer.Name, other.Name)
}

// above reports whether a layer stands above another one.
func (t Table) above(layer, other Layer) bool {
	at := func(name string) int { return slices.IndexFunc(t.Layers, func(l Layer) bool { return l.Name == name }) }
	return at(layer.Name) < at(other.Name)
}

func (t Table) allowsModule(layer Layer, imported string) bool {
	return slices.Contains(layer.Modules, everything) || t.permission(layer, imported) != ""
}

// permission returns the word of a layer's line that permits an import: the name of another layer,
// or the group of a module. It returns "" for an import that needs none, or has none.
func (t Table) permission(layer Layer, imported string) string {
	if own, ok := strings.CutPrefix(imported, Module+"/"); ok {
		other, _ := t.LayerOf(own)
		return other.Name
	}
	for _, group := range layer.Modules {
		for _, prefix := range append([]string{group}, t.Groups[group]...) {
			if imported == prefix || strings.HasPrefix(imported, prefix+"/") {
				return group
			}
		}
	}
	return ""
}
