// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/netdev"
	"github.com/alioth-net/alioth/cnid/netfilter"
	"github.com/alioth-net/alioth/cnid/report"
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

// syncMetrics measure the passes of the syncer.
type syncMetrics struct {
	seconds  *prometheus.HistogramVec
	failures prometheus.Counter
	repairs  *prometheus.CounterVec
}

func newSyncMetrics(registry prometheus.Registerer) *syncMetrics {
	m := &syncMetrics{
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
		report.RepairFilter, report.RepairInterface,
	}
}

// since observes a step that began at start and has just ended.
func (m *syncMetrics) since(step string, start time.Time) {
	m.seconds.WithLabelValues(step).Observe(time.Since(start).Seconds())
}

// packetCollector reads the counters of datapath and packet filter when they
// are asked for.
type packetCollector struct {
	kernel                          *kernel
	names                           names
	packets, theirs, dropped, share *prometheus.Desc
	log                             *slog.Logger
}

func newPacketCollector(k *kernel, n names, log *slog.Logger) *packetCollector {
	return &packetCollector{
		kernel: k, names: n, log: log,
		packets: prometheus.NewDesc("alioth_datapath_packets_total",
			"Packets that the datapath's programs saw, by what became of them and where.", []string{"verdict", "reason", "direction"}, nil),
		theirs: prometheus.NewDesc("alioth_datapath_vpc_dropped_packets_total",
			"Packets that the datapath's programs dropped, by reason, direction and VPC; of no VPC where the label is empty.",
			[]string{"reason", "direction", "vpc"}, nil),
		dropped: prometheus.NewDesc("alioth_filter_dropped_packets_total",
			"Packets that the host's packet filter dropped, by reason.", []string{"reason"}, nil),
		share: prometheus.NewDesc("alioth_filter_flows_per_pod",
			"Flows through the host that one pod may have at a time: what was asked for, or what conntrack has room for; 0 is no limit.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *packetCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.packets
	ch <- c.theirs
	ch <- c.dropped
	ch <- c.share
}

// Collect implements prometheus.Collector.
func (c *packetCollector) Collect(ch chan<- prometheus.Metric) {
	counters, err := c.kernel.counters()
	if err != nil {
		c.log.Warn("can't read the datapath's counters", "error", err)
	}
	for _, row := range counters {
		verdict := "pass"
		if row.Reason.Drop() {
			verdict = "drop"
		}
		ch <- prometheus.MustNewConstMetric(c.packets, prometheus.CounterValue, float64(row.Packets),
			verdict, row.Reason.String(), row.Direction.String())
	}
	share, err := netfilter.Share(c.kernel.cfg.FlowsPerShadow, c.kernel.pods.Load())
	if err != nil {
		c.log.Warn("can't read how many flows a pod may have", "error", err)
	} else {
		ch <- prometheus.MustNewConstMetric(c.share, prometheus.GaugeValue, float64(share))
	}
	c.collectTheirs(ch)
	drops, err := netfilter.Counters()
	if err != nil {
		c.log.Debug("can't read the packet filter's counters", "error", err)
	}
	for _, row := range drops {
		ch <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(row.Packets), row.Reason)
	}
}

// collectTheirs tells the drops of each VPC. Interfaces are left out: they would
// be as many series as there ever were pods.
func (c *packetCollector) collectTheirs(ch chan<- prometheus.Metric) {
	counters, err := c.kernel.dropCounters()
	if err != nil {
		c.log.Warn("can't read the datapath's counters of drops", "error", err)
	}
	type series struct{ reason, direction, vpc string }
	sums := map[series]uint64{}
	for _, row := range counters {
		sums[series{row.Reason.String(), row.Direction.String(), c.names.vpc(row.VNI)}] += row.Packets
	}
	for s, packets := range sums {
		ch <- prometheus.MustNewConstMetric(c.theirs, prometheus.CounterValue, float64(packets), s.reason, s.direction, s.vpc)
	}
}
