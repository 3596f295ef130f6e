// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestLookupMetrics_Start_AllLabelsPresentAndDocumented(t *testing.T) {
	registry := prometheus.NewRegistry()
	NewMetrics(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for _, family := range families {
		series[family.GetName()] = len(family.GetMetric())
		_, row, found := strings.Cut(string(docs), "| `"+family.GetName()+"` |")
		row, _, _ = strings.Cut(row, "\n")
		if !found {
			t.Errorf("docs/reference/metrics.md has no row for %s", family.GetName())
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if !strings.Contains(row, "`"+label.GetValue()+"`") {
					t.Errorf("docs/reference/metrics.md does not explain %s of %s", label.GetValue(), family.GetName())
				}
			}
		}
	}
	want := map[string]int{"alioth_lookups_total": 6, "alioth_cached_rows": 1, "alioth_cached_deleted_total": 9}
	for name, count := range want {
		if series[name] != count {
			t.Errorf("%s has %d series, want %d", name, series[name], count)
		}
	}
}
