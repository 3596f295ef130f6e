// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

var (
	addressesDesc = prometheus.NewDesc("alioth_operator_addresses",
		"Addresses by state: held; orphaned (their pod or node is gone, and they wait for the node's daemon, or for the node to be fenced); "+
			"claiming (being created).", []string{"state"}, nil)
	refusedDesc = prometheus.NewDesc("alioth_operator_refused_objects",
		"Objects that can't have what they ask for, by kind and by the reason of their condition.", []string{"kind", "reason"}, nil)
)

// picture makes metrics of what the store holds when they are asked for. Every
// replica has the same picture; one whose store is not filled yet has none.
type picture struct{ state *state }

// Describe implements prometheus.Collector.
func (p picture) Describe(to chan<- *prometheus.Desc) {
	to <- addressesDesc
	to <- refusedDesc
}

// Collect implements prometheus.Collector.
func (p picture) Collect(to chan<- prometheus.Metric) {
	if !p.state.ready() {
		return
	}
	fed := p.state.feed.Load()
	if fed == nil {
		return // the term has just ended
	}
	fed.Store().View(func(tx store.ReadTx) {
		for state, count := range addressesByState(tx) {
			to <- prometheus.MustNewConstMetric(addressesDesc, prometheus.GaugeValue, float64(count), state)
		}
		for key, count := range refusedByReason(tx) {
			to <- prometheus.MustNewConstMetric(refusedDesc, prometheus.GaugeValue, float64(count), key.kind, key.reason)
		}
	})
}

// addressesByState counts addresses; every state is there.
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

// refusedByReason counts the objects whose condition says no.
func refusedByReason(tx store.ReadTx) map[kindReason]int {
	counts := map[kindReason]int{}
	add := func(kind string, ready bool, reason string) {
		if !ready && reason != "" {
			counts[kindReason{kind, reason}]++
		}
	}
	for _, vpc := range store.ListVPCs(tx) {
		add("VPC", vpc.Ready, vpc.Reason)
	}
	for _, subnet := range store.ListSubnets(tx) {
		add("Subnet", subnet.Ready, subnet.Reason)
	}
	for _, network := range store.ListNetworks(tx) {
		add("Network", network.Ready, network.Reason)
	}
	for _, shared := range store.ListSharedServices(tx) {
		add("SharedService", shared.Ready, shared.Reason)
	}
	for _, pool := range store.ListExternalPools(tx) {
		add("ExternalPool", pool.Ready, pool.Reason)
	}
	for _, access := range store.ListHostAccesses(tx) {
		add("HostAccess", access.Ready, access.Reason)
	}
	for pod := range store.AllPods(tx) {
		add("Pod", pod.Terminal || pod.Reason == v1alpha1.AttachedReason, pod.Reason)
	}
	return counts
}
