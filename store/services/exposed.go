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
	return row.HealthCheckNodePort != 0 || slices.ContainsFunc(row.Ports, func(p store.ServicePort) bool { return p.NodePort != 0 })
}

// ExposedVPCs returns the names of the VPCs that Services ask for which clients outside
// reach. The function does not read the VPCs: a VPC of the result need not exist, nor allow
// the tenant.
func ExposedVPCs(tx store.ReadTx, defaultVPC string) map[string]bool {
	vpcs := map[string]bool{}
	for _, service := range store.ListServices(tx) {
		if len(service.ClusterIPs) == 0 || !IsExposed(service) {
			continue
		}
		if vpc, _ := wanted(tx, label{service.Namespace, service.Network}, defaultVPC); vpc != "" {
			vpcs[vpc] = true
		}
	}
	return vpcs
}
