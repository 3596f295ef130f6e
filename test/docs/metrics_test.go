// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// metric is a full name. The options of prometheus may have it in parts.
var metric = regexp.MustCompile(`^alioth_[a-z][a-z0-9_]*$`)

// TestMetricsPage_EachMetric_Listed reads the metrics in the sources of the product: a running
// program may lack metrics that count something for the first time later.
func TestMetricsPage_EachMetric_Listed(t *testing.T) {
	const page = "docs/reference/metrics.md"
	_, byPath := read(t)
	listed := map[string]bool{}
	for _, span := range byPath[page].Spans {
		listed[span.Text] = true
	}
	names := map[string]bool{}
	for _, folder := range []string{"api", "cmd", "cnid", "operator", "store"} {
		addMetrics(t, filepath.Join(root, folder), names)
	}
	for _, known := range []string{"alioth_operator_distrusted_total", "alioth_cnid_add_seconds", "alioth_lookups_total", "alioth_role_complete", "alioth_build_info"} {
		if !names[known] {
			t.Errorf("the sources do not name %s: this test reads them wrongly", known)
		}
	}
	for name := range names {
		if !listed[name] {
			t.Errorf("%s lacks %s", page, name)
		}
	}
}

// addMetrics adds the metrics that the Go files below a folder name.
func addMetrics(t *testing.T, folder string, names map[string]bool) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if name := metricOf(node); metric.MatchString(name) {
				names[name] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// metricOf returns the name in the options of a metric, in the call that makes its description or
// its collector, or in a constant Metric; empty for other nodes.
func metricOf(node ast.Node) string {
	switch node := node.(type) {
	case *ast.CompositeLit:
		kind, ok := node.Type.(*ast.SelectorExpr)
		if !ok || !strings.HasSuffix(kind.Sel.Name, "Opts") {
			return ""
		}
		return optionsName(node)
	case *ast.CallExpr:
		called, ok := node.Fun.(*ast.SelectorExpr)
		if ok && (called.Sel.Name == "NewDesc" || called.Sel.Name == "NewCollector") && len(node.Args) > 0 {
			return literal(node.Args[0])
		}
	case *ast.ValueSpec:
		if node.Names[0].Name == "Metric" && len(node.Values) > 0 {
			return literal(node.Values[0])
		}
	}
	return ""
}

// optionsName joins the parts of a name. A namespace that is a constant has the value alioth.
func optionsName(options *ast.CompositeLit) string {
	parts := map[string]string{}
	for _, element := range options.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := pair.Key.(*ast.Ident); ok {
			parts[key.Name] = literal(pair.Value)
			if _, constant := pair.Value.(*ast.Ident); constant && key.Name == "Namespace" {
				parts[key.Name] = "alioth"
			}
		}
	}
	name := parts["Name"]
	for _, part := range []string{parts["Subsystem"], parts["Namespace"]} {
		if part != "" {
			name = part + "_" + name
		}
	}
	return name
}

// literal returns the value of a text; empty for other expressions.
func literal(expression ast.Expr) string {
	if basic, ok := expression.(*ast.BasicLit); ok {
		if text, err := strconv.Unquote(basic.Value); err == nil {
			return text
		}
	}
	return ""
}
