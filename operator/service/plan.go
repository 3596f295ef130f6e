// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/tenancy"
)

// decide says why a Service is served in no VPC, nil where it is. One without a
// virtual address has nothing to be served, and one without a label in a namespace
// that has no VPC is nobody's concern: it may never have been meant for one.
func decide(tx store.ReadTx, service *store.Service, defaultVPC string) *tenancy.Refusal {
	ns := store.GetNamespace(tx, service.Namespace)
	if service.Deleting || len(service.ClusterIPs) == 0 || ns == nil {
		return nil
	}
	_, refusal := tenancy.Resolve(tx, tenancy.Member{Tenant: ns.Tenant, Namespace: ns.Name, Label: service.Network}, defaultVPC)
	if refusal != nil && refusal.Reason == v1alpha1.NoDefaultNetworkReason {
		return nil
	}
	return refusal
}
