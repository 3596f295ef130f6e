// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package drain_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/alioth-net/alioth/cnid/nodeipam/queue/drain"
)

const releasesMetric = "alioth_cnid_node_ipam_queued_releases_total"

// counted returns metrics, and a function that returns their counts by result.
func counted(t *testing.T) (*drain.Metrics, func() map[string]float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	return drain.NewMetrics(registry), func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != releasesMetric {
			t.Fatalf("%v, %v", families, err)
		}
		results := map[string]float64{}
		for _, metric := range families[0].GetMetric() {
			results[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
		}
		return results
	}
}

func wantCounted(t *testing.T, got map[string]float64, applied, failed, rejected float64) {
	t.Helper()
	if diff := cmp.Diff(map[string]float64{"applied": applied, "failed": failed, "rejected": rejected}, got); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

func TestMetrics_EachName_ConventionalAndDocumented(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	drain.NewMetrics(registry)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	docs, err := os.ReadFile("../../../../docs/reference/metrics.md")
	if err != nil || !strings.Contains(string(docs), "`"+releasesMetric+"`") {
		t.Errorf("docs/reference/metrics.md says nothing of %s: %v", releasesMetric, err)
	}
}
