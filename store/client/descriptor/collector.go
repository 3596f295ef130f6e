// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package descriptor

import "github.com/prometheus/client_golang/prometheus"

// Collector counts the objects that are left out, by kind and reason. It implements
// prometheus.Collector.
type Collector struct {
	from Source
	desc *prometheus.Desc
}

// Source lists the objects that are left out.
type Source interface {
	LeftOut() []LeftOut
}

// NewCollector returns a Collector with the name of the metric.
func NewCollector(name string, from Source) *Collector {
	return &Collector{from: from, desc: prometheus.NewDesc(
		name,
		"Objects of the API that are left out, because they can't be read, contradict themselves or conflict with others, by kind and reason.",
		[]string{"kind", "reason"},
		nil,
	)}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	counts := map[[2]string]int{}
	for _, one := range c.from.LeftOut() {
		counts[[2]string{one.Kind.Name, one.Reason}]++
	}
	for key, count := range counts {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(count), key[0], key[1])
	}
}
