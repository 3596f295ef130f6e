// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
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

// Metrics times the steps of a Manager.
type Metrics struct {
	add, attach *prometheus.HistogramVec
	failed      *prometheus.CounterVec
}

// addBuckets are in seconds.
var addBuckets = []float64{.001, .002, .005, .01, .015, .02, .03, .06, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{add: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "alioth", Subsystem: "cnid", Name: "add_seconds",
		Help: "Time of CNI ADDs in seconds by phase: wait (for the control plane), attach, program, " +
			"and total, which is the daemon's own work: everything but wait.",
		Buckets: addBuckets,
	}, []string{"phase"})}
	m.attach = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "alioth", Subsystem: "cnid", Name: "attach_seconds",
		Help:    "Time in seconds that a driver needs to make one interface.",
		Buckets: addBuckets,
	}, []string{"driver"})
	m.failed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "alioth", Subsystem: "cnid", Name: "attach_failures_total",
		Help: "Interfaces that a driver could not make.",
	}, []string{"driver"})
	reg.MustRegister(m.add, m.attach, m.failed)
	return m
}

// attached counts one attempt of a driver.
func (m *Metrics) attached(driver ifdriver.Kind, start time.Time, err error) {
	if err != nil {
		m.failed.WithLabelValues(string(driver)).Inc()
		return
	}
	m.attach.WithLabelValues(string(driver)).Observe(time.Since(start).Seconds())
}

func (m *Metrics) since(phase string, start time.Time) {
	m.add.WithLabelValues(phase).Observe(time.Since(start).Seconds())
}

// inVPCs is the label of interfaces in VPCs. A node may have a thousand VPCs.
const inVPCs = "VPC"

// Collector counts the interfaces of a node. It implements prometheus.Collector.
type Collector struct {
	journal    journal.Reader
	interfaces *prometheus.Desc
}

// NewCollector returns a Collector of the attachments with these records.
func NewCollector(records journal.Reader) *Collector {
	return &Collector{journal: records, interfaces: prometheus.NewDesc("alioth_cnid_interfaces",
		"Interfaces of pods by driver and network; all VPCs are one network, VPC.", []string{"driver", "network"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) { to <- c.interfaces }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	type network struct{ driver, name string }
	count := map[network]int{}
	for _, rec := range c.journal.Records() {
		if rec.Phase != journal.PhaseDone {
			continue
		}
		of := network{string(rec.Kind), inVPCs}
		if !rec.InVPC() {
			of.name = rec.Outside
		}
		count[of]++
	}
	for of, n := range count {
		to <- prometheus.MustNewConstMetric(c.interfaces, prometheus.GaugeValue, float64(n), of.driver, of.name)
	}
}
