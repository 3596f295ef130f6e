// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// Collector reads, when it is asked, which roles of the node have their whole tables.
type Collector struct {
	node       string
	store      *store.Store
	programmed Programmed
	complete   *prometheus.Desc
}

// NewCollector returns a Collector of a node.
func NewCollector(node string, s *store.Store, programmed Programmed) *Collector {
	return &Collector{node: node, store: s, programmed: programmed, complete: prometheus.NewDesc(
		"alioth_role_complete",
		"Roles of the node, 1 if all tables of the role in the VPC are programmed completely, otherwise 0.",
		[]string{"role", "vpc"},
		nil,
	)}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.complete }

// Collect implements prometheus.Collector. All subnets of a VPC where the node is a bouncer have
// one series: a VPC may have many subnets.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	programmed, _, _ := c.programmed()
	type series struct{ role, vpc string }
	all := map[series]float64{}
	c.store.View(func(tx store.ReadTx) {
		for _, m := range roles.MembersByNode(tx, c.node) {
			if !roles.IsOn(tx, m, c.node) {
				continue
			}
			s := series{roleOf(m), m.VPC}
			if _, known := all[s]; !known {
				all[s] = 1
			}
			if !programmed.Complete[m.Name] {
				all[s] = 0
			}
		}
	})
	for s, value := range all {
		ch <- prometheus.MustNewConstMetric(c.complete, prometheus.GaugeValue, value, s.role, s.vpc)
	}
}

// roleOf returns the role of a member, as a label has it.
func roleOf(m *roles.Member) string {
	if m.Subnet == "" {
		return "divider"
	}
	return "bouncer"
}
