// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts the decisions of the controller. The nil value counts nothing.
type Metrics struct {
	assignments prometheus.Counter
	refusals    *prometheus.CounterVec
	unconfirmed prometheus.Counter
}

// NewMetrics creates and registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		assignments: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "alioth_operator_pod_assignments_total",
			Help: "Pods whose addresses were written to their status.",
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "alioth_operator_pod_refusals_total",
			Help: "Refusals written to pods, by the reason of the pod's condition.",
		}, []string{"reason"}),
		unconfirmed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "alioth_operator_pod_replaced_total",
			Help: "Allocation statuses of pods that no Address or AttachmentClaim confirmed, and that were replaced.",
		}),
	}
	for _, collector := range []prometheus.Collector{m.assignments, m.refusals, m.unconfirmed} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) assigned() {
	if m != nil {
		m.assignments.Inc()
	}
}

func (m *Metrics) refused(reason string) {
	if m != nil {
		m.refusals.WithLabelValues(reason).Inc()
	}
}

func (m *Metrics) replaced() {
	if m != nil {
		m.unconfirmed.Inc()
	}
}
