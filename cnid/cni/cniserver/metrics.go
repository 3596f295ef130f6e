// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"strconv"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts commands.
type Metrics struct {
	commands *prometheus.CounterVec
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "alioth", Subsystem: "cnid", Name: "commands_total",
			Help: "CNI commands by verb and by the CNI error code answered, 0 for success.",
		}, []string{"verb", "code"}),
	}
	reg.MustRegister(m.commands)
	return m
}

// command counts a reply. All unknown verbs share one series, so that a caller can't
// create any number of series.
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
