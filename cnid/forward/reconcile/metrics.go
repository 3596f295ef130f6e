// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/forward/finding"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

const metricsNamespace = "alioth"

// Steps of a pass, as the metric's label.
const (
	stepPrepare  = "prepare"
	stepPlan     = "plan"
	stepFilter   = "filter"
	stepDevices  = "devices"
	stepDatapath = "datapath"
	stepTotal    = "total"
)

// Metrics measure the passes, and count repairs.
type Metrics struct {
	seconds  *prometheus.HistogramVec
	failures prometheus.Counter
	repairs  *prometheus.CounterVec
}

// NewMetrics returns metrics that are registered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: metricsNamespace, Subsystem: "cnid", Name: "sync_seconds",
			Help:    "Time in seconds that it took to plan and program what the node has to hold, by step.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 15),
		}, []string{"step"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: metricsNamespace, Subsystem: "cnid", Name: "sync_failures_total",
			Help: "Passes that did not succeed.",
		}),
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: metricsNamespace, Subsystem: "cnid", Name: "repairs_total",
			Help: "What was deleted or changed by hand on the node and put right, by kind.",
		}, []string{"kind"}),
	}
	for _, kind := range repairKinds() {
		m.repairs.WithLabelValues(kind)
	}
	registry.MustRegister(m.seconds, m.failures, m.repairs)
	return m
}

// repairKinds are all kinds; the values of the metric's label.
func repairKinds() []string {
	return []string{
		netdev.RepairDevice, netdev.RepairAddress, netdev.RepairRoute, netdev.RepairSetting,
		datapath.RepairPin, datapath.RepairLink, datapath.RepairProgram, datapath.RepairMap,
		finding.RepairFilter, finding.RepairInterface,
	}
}

// Repaired counts a repair of a kind.
func (m *Metrics) Repaired(kind string) { m.repairs.WithLabelValues(kind).Inc() }

// since observes the duration of a step that began at start and has just ended.
func (m *Metrics) since(step string, start time.Time) {
	m.seconds.WithLabelValues(step).Observe(time.Since(start).Seconds())
}
