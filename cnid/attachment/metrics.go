// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Phases of Establish, as the metric's label.
const (
	// phaseWait is the wait for a decision.
	phaseWait = "wait"
	// phaseAttach makes and configures the devices.
	phaseAttach = "attach"
	// phaseProgram is the wait for the datapath.
	phaseProgram = "program"
	// phaseTotal is the daemon's own work: everything but phaseWait.
	phaseTotal = "total"
)

// Metrics times what a Manager establishes.
type Metrics struct {
	add *prometheus.HistogramVec
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{add: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "alioth", Subsystem: "cnid", Name: "add_seconds",
		Help: "Time of CNI ADDs in seconds by phase: wait (for the control plane), attach, program, " +
			"and total, which is the daemon's own work: everything but wait.",
		Buckets: []float64{.001, .002, .005, .01, .015, .02, .03, .06, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"phase"})}
	reg.MustRegister(m.add)
	return m
}

func (m *Metrics) since(phase string, start time.Time) {
	m.add.WithLabelValues(phase).Observe(time.Since(start).Seconds())
}
