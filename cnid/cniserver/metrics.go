// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"strconv"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/prometheus/client_golang/prometheus"
)

// Phases of an ADD, as the metric's label.
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

// Metrics counts and times commands.
type Metrics struct {
	add      *prometheus.HistogramVec
	commands *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		add: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "alioth", Subsystem: "cnid", Name: "add_seconds",
			Help: "Time of CNI ADDs in seconds by phase: wait (for the control plane), attach, program, " +
				"and total, which is the daemon's own work: everything but wait.",
			Buckets: []float64{.001, .002, .005, .01, .015, .02, .03, .06, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"phase"}),
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "alioth", Subsystem: "cnid", Name: "commands_total",
			Help: "CNI commands by verb and by the CNI error code answered, 0 for success.",
		}, []string{"verb", "code"}),
	}
	reg.MustRegister(m.add, m.commands)
	return m
}

func (m *Metrics) since(phase string, start time.Time) {
	m.add.WithLabelValues(phase).Observe(time.Since(start).Seconds())
}

// command counts an answer. A verb that is none counts as one, lest a caller
// make up series.
func (m *Metrics) command(verb string, err *types.Error) {
	switch verb {
	case "ADD", "DEL", "CHECK", "GC", "STATUS":
	default:
		verb = "other"
	}
	code := uint(0)
	if err != nil {
		code = err.Code
	}
	m.commands.WithLabelValues(verb, strconv.FormatUint(uint64(code), 10)).Inc()
}
