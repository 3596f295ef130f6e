// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// otherPaths is the label of all paths that are not served, so that a client can't create
// any number of series.
const otherPaths = "other"

// requestBuckets are in seconds, up to SocketPatience.
var requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 31}

// Metrics counts and times requests.
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	running  prometheus.Gauge
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "alioth", Subsystem: "cnid", Name: "node_ipam_requests_total",
			Help: "Requests to the node IPAM API by path and by the code answered, 0 for success.",
		}, []string{"path", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "alioth", Subsystem: "cnid", Name: "node_ipam_request_seconds",
			Help:    "Time in seconds from the headers of a request to the node IPAM API to its answer, by path.",
			Buckets: requestBuckets,
		}, []string{"path"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "alioth", Subsystem: "cnid", Name: "node_ipam_requests_running",
			Help: "Requests to the node IPAM API that are not answered yet.",
		}),
	}
	reg.MustRegister(m.requests, m.seconds, m.running)
	return m
}

// begin counts a request as running until done gets the code of its answer. path is the path of
// an operation, or otherPaths.
func (m *Metrics) begin(path string) (done func(wire.ReturnCode)) {
	begun := time.Now()
	m.running.Inc()
	return func(code wire.ReturnCode) {
		m.running.Dec()
		m.seconds.WithLabelValues(path).Observe(time.Since(begun).Seconds())
		m.requests.WithLabelValues(path, strconv.Itoa(int(code))).Inc()
	}
}
