// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds"
)

var (
	addressesDesc = prometheus.NewDesc(
		"alioth_operator_addresses",
		"Addresses by state: held; orphaned (their pod or node is gone; the node's daemon has not released them and the node is not fenced); "+
			"claiming (being created).",
		[]string{"state"},
		nil,
	)
	refusedDesc = prometheus.NewDesc("alioth_operator_refused_objects",
		"Objects whose request is refused, by kind and reason of their condition.", []string{"kind", "reason"}, nil)
)

// picture makes metrics of the store's content when they are collected. Every replica
// has the same content; a replica whose store is not filled yet has no such metrics.
type picture struct{ state *state }

// Describe implements prometheus.Collector.
func (p picture) Describe(to chan<- *prometheus.Desc) {
	to <- addressesDesc
	to <- refusedDesc
	p.leftOut().Describe(to)
}

// leftOut counts the objects that the store of the present term leaves out.
func (p picture) leftOut() *descriptor.Collector {
	return descriptor.NewCollector("alioth_operator_objects_left_out", p)
}

// LeftOut implements descriptor.Source.
func (p picture) LeftOut() []descriptor.LeftOut {
	if fed := p.state.feed.Load(); fed != nil {
		return fed.LeftOut()
	}
	return nil
}

// Collect implements prometheus.Collector.
func (p picture) Collect(to chan<- prometheus.Metric) {
	if !p.state.filled() {
		return
	}
	fed := p.state.feed.Load()
	if fed == nil {
		return // the term has just ended
	}
	p.leftOut().Collect(to)
	fed.Store().View(func(tx store.ReadTx) {
		for state, count := range addressesByState(tx) {
			to <- prometheus.MustNewConstMetric(addressesDesc, prometheus.GaugeValue, float64(count), state)
		}
		for key, count := range refusedByReason(tx) {
			to <- prometheus.MustNewConstMetric(refusedDesc, prometheus.GaugeValue, float64(count), key.kind, key.reason)
		}
	})
}

// addressesByState counts addresses; the result has every state.
func addressesByState(tx store.ReadTx) map[string]int {
	counts := map[string]int{"held": 0, "orphaned": 0, "claiming": 0}
	for address := range store.AllAddresses(tx) {
		switch {
		case address.UID == "":
			counts["claiming"]++
		case orphaned(tx, address):
			counts["orphaned"]++
		default:
			counts["held"]++
		}
	}
	return counts
}

func orphaned(tx store.ReadTx, address *store.Address) bool {
	switch address.Holder.Kind {
	case store.HolderPod:
		return store.GetPod(tx, address.Holder.UID) == nil
	case store.HolderService:
		service := store.GetService(tx, address.Holder.Namespace, address.Holder.Name)
		return service == nil || service.UID != address.Holder.UID
	case store.HolderNode:
	}
	node := store.GetNode(tx, address.Holder.Name)
	return node == nil || node.UID != address.Holder.UID
}

type kindReason struct{ kind, reason string }

// refusedByReason counts the objects whose condition is False.
func refusedByReason(tx store.ReadTx) map[kindReason]int {
	counts := map[kindReason]int{}
	for _, kind := range kinds.All() {
		if kind.Conditions == nil {
			continue
		}
		for verdict := range kind.Conditions.Verdicts(tx) {
			if !verdict.Ready && verdict.Reason != "" {
				counts[kindReason{kind.Name, verdict.Reason}]++
			}
		}
	}
	return counts
}
