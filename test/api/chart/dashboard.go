// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// asked finds the metrics in a query: the words that have the name of a metric. Labels have other
// names.
var asked = regexp.MustCompile(`\b(alioth|workqueue)_[a-z0-9_]+`)

// DashboardMetrics returns the metrics that the chart's dashboard asks for and whose names begin
// with one of the prefixes. Metrics of histograms come without suffix.
func DashboardMetrics(t testing.TB, root string, prefixes ...string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "helm", "alioth", "files", "dashboards", "alioth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Definition string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatalf("read the dashboard: %v", err)
	}
	var queries []string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, target.Expr)
		}
	}
	for _, variable := range dashboard.Templating.List {
		queries = append(queries, variable.Definition)
	}
	var names []string
	for _, name := range asked.FindAllString(strings.Join(queries, "\n"), -1) {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			names = append(names, strings.TrimSuffix(name, "_bucket"))
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		t.Fatalf("the dashboard asks for no metric of %v", prefixes)
	}
	return names
}
