// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/forward/lookup/cache"
)

const metricsNamespace = "alioth"

// overBudget is the result of a miss that becomes no question, because too many wait.
const overBudget = "over_budget"

// Metrics count questions for Addresses, and cached rows.
type Metrics struct {
	lookups *prometheus.CounterVec
	rows    prometheus.Gauge
	deleted *prometheus.CounterVec
}

// NewMetrics returns metrics that are registered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: metricsNamespace, Name: "lookups_total",
			Help: "Addresses that packets missed and the daemon asked the API server for, by result. over_budget: it did not ask.",
		}, []string{"result"}),
		rows: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: metricsNamespace, Name: "cached_rows",
			Help: "Rows of single addresses that the daemon has looked up, those that are about to be deleted included.",
		}),
		deleted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: metricsNamespace, Name: "cached_deleted_total",
			Help: "Rows of single addresses that no packet uses any more, by cause.",
		}, []string{"cause"}),
	}
	for _, result := range cache.Results() {
		m.lookups.WithLabelValues(string(result))
	}
	m.lookups.WithLabelValues(overBudget)
	for _, cause := range cache.Causes() {
		m.deleted.WithLabelValues(string(cause))
	}
	registry.MustRegister(m.lookups, m.rows, m.deleted)
	return m
}
