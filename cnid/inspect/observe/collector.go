// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// Counters are the counters that a Collector reads. They exist once the datapath is open.
type Counters interface {
	Counters() ([]telemetry.Counter, error)
	DropCounters() ([]telemetry.DropCounter, error)
}

// Collector reads the counters of datapath and packet filter when they
// are asked for.
type Collector struct {
	path                            Counters
	names                           Names
	flows                           func() (uint32, error)
	packets, theirs, dropped, share *prometheus.Desc
	log                             *slog.Logger
}

// NewCollector returns a Collector that names VPCs. share returns the number of flows that a pod
// may have.
func NewCollector(path Counters, n Names, share func() (uint32, error), log *slog.Logger) *Collector {
	return &Collector{
		path: path, names: n, flows: share, log: log,
		packets: prometheus.NewDesc(
			"alioth_datapath_packets_total",
			"Packets that the datapath's programs handled, by verdict, reason and direction.",
			[]string{"verdict", "reason", "direction"},
			nil,
		),
		theirs: prometheus.NewDesc(
			"alioth_datapath_vpc_dropped_packets_total",
			"Packets that the datapath's programs dropped, by reason, direction and VPC. The label is empty for packets of no VPC.",
			[]string{"reason", "direction", "vpc"},
			nil,
		),
		dropped: prometheus.NewDesc("alioth_filter_dropped_packets_total",
			"Packets that the host's packet filter dropped, by reason.", []string{"reason"}, nil),
		share: prometheus.NewDesc(
			"alioth_filter_flows_per_pod",
			"Limit of flows through the host per pod: the configured limit, or less for a small conntrack table; 0: no limit.",
			nil,
			nil,
		),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.packets
	ch <- c.theirs
	ch <- c.dropped
	ch <- c.share
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	counters, err := c.path.Counters()
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
	share, err := c.flows()
	if err != nil {
		c.log.Warn("can't read the limit of flows per pod", "error", err)
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

// collectTheirs sends the drops of each VPC. Interfaces are left out: their series would
// become as many as there ever were pods.
func (c *Collector) collectTheirs(ch chan<- prometheus.Metric) {
	counters, err := c.path.DropCounters()
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
