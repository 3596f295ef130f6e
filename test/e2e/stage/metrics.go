// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
)

const (
	// PacketsMetric counts packets by the verdicts of the datapath.
	PacketsMetric = "alioth_datapath_packets_total"
	// dropsMetric counts packets that the datapath dropped, by VPC.
	dropsMetric = "alioth_datapath_vpc_dropped_packets_total"
	// FilterMetric counts packets that the host's own packet filter has dropped.
	FilterMetric = "alioth_filter_dropped_packets_total"
	// daemonMetrics are a daemon's metrics at its socket.
	daemonMetrics = "http://alioth-cnid/metrics"
)

// Counters reads a metric of a node's daemon by its label "reason". It adds up values that differ
// in other labels.
func (e *Env) Counters(t *testing.T, node, metric string) map[string]float64 {
	t.Helper()
	return e.sumByReason(t, node, metric, func(map[string]string) bool { return true })
}

// Drops returns the packets of a VPC that a node's datapath has dropped, by reason. Tests
// beside, whose tenants have VPCs of their own, count elsewhere.
func (e *Env) Drops(t *testing.T, node, vpc string) map[string]float64 {
	t.Helper()
	return e.sumByReason(t, node, dropsMetric, func(labels map[string]string) bool { return labels["vpc"] == vpc })
}

func (e *Env) sumByReason(
	t *testing.T,
	node, metric string,
	counts func(labels map[string]string) bool,
) map[string]float64 {
	t.Helper()
	out := e.OnNode(t, node, "testtool", "get", "--socket", cniapi.DefaultSocket, daemonMetrics)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(out))
	if err != nil {
		t.Fatalf("read metrics of %s: %v", node, err)
	}
	counters := map[string]float64{}
	for _, one := range families[metric].GetMetric() {
		labels := map[string]string{}
		for _, label := range one.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		if counts(labels) {
			counters[labels["reason"]] += one.GetCounter().GetValue()
		}
	}
	return counters
}
