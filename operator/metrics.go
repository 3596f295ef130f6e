// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/operator/announce"
	"github.com/alioth-net/alioth/operator/pod"
)

// metricSet holds the operator's metrics. They outlive every term.
type metricSet struct {
	registry  *prometheus.Registry
	leader    prometheus.Gauge
	terms     prometheus.Counter
	pods      *pod.Metrics
	nodeAudit *announce.NodeAuditMetrics
	writes    *writes
	withheld  prometheus.Counter
}

// newMetrics registers the metrics; those about the store are of the present
// term's.
func newMetrics(s *state) (*metricSet, error) {
	m := &metricSet{
		registry: prometheus.NewRegistry(),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "alioth_operator_leader",
			Help: "1 while this process leads, else 0.",
		}),
		terms: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "alioth_operator_terms_total",
			Help: "How often this process stood up: at its start, and after losing the lease or the API server.",
		}),
		withheld: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "alioth_operator_events_withheld_total",
			Help: "Events that were not written, because the objects of one namespace caused too many.",
		}),
	}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: version.Metric, Help: version.MetricHelp, ConstLabels: version.Get().Labels(),
	}, func() float64 { return 1 })
	var podsErr, auditErr, writesErr error
	m.pods, podsErr = pod.NewMetrics(m.registry)
	m.nodeAudit, auditErr = announce.NewNodeAuditMetrics(m.registry)
	m.writes, writesErr = newWrites(m.registry)
	return m, errors.Join(
		podsErr,
		auditErr,
		writesErr,
		m.registry.Register(
			m.leader,
		),
		m.registry.Register(m.terms),
		m.registry.Register(m.withheld),
		m.registry.Register(picture{s}),
		m.registry.Register(build),
	)
}
