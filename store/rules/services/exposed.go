// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"slices"

	"github.com/alioth-net/alioth/store"
)

// IsExposed reports whether clients outside reach a Service, on every node.
func IsExposed(row *store.Service) bool {
	return len(row.ExternalIPs) > 0 || row.LoadBalancer == store.LoadBalancerExternal || HasNodePorts(row)
}

// HasNodePorts reports whether ports of every node are the Service's.
func HasNodePorts(row *store.Service) bool {
	return row.HealthCheckNodePort != 0 ||
		slices.ContainsFunc(row.Ports, func(p store.ServicePort) bool { return p.NodePort != 0 })
}

// ExposedVPCs returns the names of the VPCs of Services that clients outside reach. The function
// does not read the VPCs: a VPC of the result need not exist, nor allow the tenant.
func ExposedVPCs(tx store.ReadTx, defaultVPC string) map[string]bool {
	labels := map[label]bool{}
	for service := range store.AllServices(tx) {
		if of, exposed := exposure(service); exposed {
			labels[of] = true
		}
	}
	vpcs := map[string]bool{}
	for of := range labels {
		if vpc, _ := wanted(tx, of, defaultVPC); vpc != "" {
			vpcs[vpc] = true
		}
	}
	return vpcs
}

// SameExposure reports whether ExposedVPCs does not depend on which of two rows a Service
// has; nil stands for none.
func SameExposure(a, b *store.Service) bool {
	ofA, exposedA := exposure(a)
	ofB, exposedB := exposure(b)
	return exposedA == exposedB && ofA == ofB
}

// exposure returns the label that decides about the VPC of a Service that clients outside reach.
func exposure(row *store.Service) (of label, exposed bool) {
	if row == nil || len(row.ClusterIPs) == 0 || !IsExposed(row) {
		return label{}, false
	}
	return label{row.Namespace, row.Network}, true
}
