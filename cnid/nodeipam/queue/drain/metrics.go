// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package drain

import "github.com/prometheus/client_golang/prometheus"

// Values of the label "result": a file was applied, has failed and is tried again, or does not
// contain a release.
const (
	applied  = "applied"
	failed   = "failed"
	rejected = "rejected"
)

// Metrics counts queued releases.
type Metrics struct{ releases *prometheus.CounterVec }

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{releases: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "alioth", Subsystem: "cnid", Name: "node_ipam_queued_releases_total",
		Help: "Files with releases that plugins of the node IPAM API have left, by result; a failed one is tried again.",
	}, []string{"result"})}
	for _, result := range []string{applied, failed, rejected} {
		m.releases.WithLabelValues(result)
	}
	reg.MustRegister(m.releases)
	return m
}

func (m *Metrics) count(result string) { m.releases.WithLabelValues(result).Inc() }
