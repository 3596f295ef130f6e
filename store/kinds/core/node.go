// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"hash/fnv"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// taintToBeDeleted is the taint that the cluster's autoscaler puts on a node before it deletes
// the node, so that load balancers outside leave it.
const taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// mostAddresses is the number of addresses of a node that count. The kubelet may report any
// number, and all nodes have them in tables of a fixed size (MAX_NODES, MAX_CLOSED in ebpf/src).
const mostAddresses = 64

// Node is the kind of a node of the cluster.
var Node = descriptor.Define(&all, descriptor.Description[*corev1.Node, store.Node]{
	Name: "Node", Object: &corev1.Node{}, List: &corev1.NodeList{}, Convert: convertNode,
	Table:  descriptor.ByName(store.GetNode, store.PutNode, store.DeleteNode),
	Trim:   trimNode,
	OnNode: descriptor.Everything,
})

// convertNode converts a Node. It leaves out addresses that are not IPs, such as host names, and
// all addresses above mostAddresses. It never fails.
func convertNode(in *corev1.Node) (*store.Node, error) {
	row := &store.Node{Meta: values.Meta(in), Name: in.Name, Zone: in.Labels[corev1.LabelTopologyZone]}
	for _, address := range in.Status.Addresses {
		// A kubelet writes them: an address that can't be a host's must not concern the others.
		ip, ok := values.HostAddr(address.Address)
		if !ok {
			continue
		}
		if len(row.AllAddresses) == mostAddresses {
			row.IgnoredAddresses++
			continue
		}
		row.AllAddresses = append(row.AllAddresses, ip)
		if address.Type == corev1.NodeInternalIP {
			row.Addresses = append(row.Addresses, ip)
		}
	}
	row.Pods = uint32(min(max(in.Status.Allocatable.Pods().Value(), 0), math.MaxUint32))
	row.KubeletPort = uint16(min(max(in.Status.DaemonEndpoints.KubeletEndpoint.Port, 0), math.MaxUint16))
	for _, condition := range in.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			row.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	for _, taint := range in.Spec.Taints {
		row.OutOfService = row.OutOfService || taint.Key == corev1.TaintNodeOutOfService
		row.Leaving = row.Leaving || taint.Key == taintToBeDeleted
	}
	_, row.NoBalancers = in.Labels[corev1.LabelNodeExcludeBalancers]
	_, row.NodeIPAM = in.Labels[multitenancyv1alpha1.NodeLabel]
	row.RoleLabel = in.Labels[v1alpha1.RoleNodeLabel] == "true"
	row.Selection = hashSelection(in)
	row.Pools = poolsOf(in.Status.Allocatable)
	return row, nil
}

// mostPools bounds the extended resources of one node that count.
const mostPools = 64

// poolsOf returns the extended resources that the node has, in order: names with a domain
// that is not one of Kubernetes.
func poolsOf(resources corev1.ResourceList) []string {
	var all []string
	for name, quantity := range resources {
		if isExtended(name) && quantity.Sign() > 0 {
			all = append(all, string(name))
		}
	}
	slices.Sort(all)
	return all[:min(len(all), mostPools)]
}

// hashSelection hashes the labels and taints of a node.
func hashSelection(in *corev1.Node) uint64 {
	hash := fnv.New64a()
	write := func(parts ...string) {
		for _, part := range parts {
			_, _ = hash.Write(append([]byte(part), 0)) // it never fails
		}
	}
	for _, key := range slices.Sorted(maps.Keys(in.Labels)) {
		write(key, in.Labels[key])
	}
	for _, taint := range in.Spec.Taints {
		write("taint", taint.Key, taint.Value, string(taint.Effect))
	}
	return hash.Sum64()
}

// trimNode keeps the parts of a node's spec and status that convertNode reads. It drops the
// kubelet's port, because daemons alone read it.
func trimNode(node *corev1.Node) {
	node.Spec = corev1.NodeSpec{Taints: node.Spec.Taints}
	node.Status = corev1.NodeStatus{
		Addresses: node.Status.Addresses, Conditions: readyOf(node.Status.Conditions),
		Allocatable: countedOf(node.Status.Allocatable),
	}
}

// countedOf keeps how many pods a node takes, and the extended resources that it has.
func countedOf(resources corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for name, quantity := range resources {
		if name == corev1.ResourcePods || isExtended(name) {
			if kept == nil {
				kept = corev1.ResourceList{}
			}
			kept[name] = quantity
		}
	}
	return kept
}

// readyOf keeps whether a node is ready, and not since when.
func readyOf(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	for _, condition := range conditions {
		if condition.Type == corev1.NodeReady {
			return []corev1.NodeCondition{{Type: condition.Type, Status: condition.Status}}
		}
	}
	return nil
}
