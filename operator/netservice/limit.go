// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netservice

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// limited has the Services of a tenant up to a limit, the oldest first, and the next one.
type limited struct {
	services []*store.Service
	limit    int
}

// ofTenant returns the Services of a tenant that select endpoints. It reads at most the limit of
// each namespace, however many Services there are. Without a limit it returns no Services.
func (r Rules) ofTenant(tx store.ReadTx, tenant string) limited {
	l := limited{limit: r.Services}
	if l.limit == 0 {
		return l
	}
	for _, ns := range store.NamespacesByTenant(tx, tenant) {
		count := 0
		for service := range store.SelectingServices(tx, ns.Name) {
			l.services = append(l.services, service)
			if count++; count > l.limit {
				break
			}
		}
	}
	slices.SortFunc(l.services, store.ServicesByAge)
	l.services = l.services[:min(len(l.services), l.limit+1)]
	return l
}

// has reports whether a Service is within the limit.
func (l limited) has(service *store.Service) bool {
	return len(l.services) <= l.limit || store.ServicesByAge(service, l.services[l.limit]) < 0
}

// last returns the Services on both sides of the limit. When the tenant has one Service more or
// less, they may have changed sides.
func (l limited) last() []*store.Service {
	return l.services[min(len(l.services), max(l.limit-1, 0)):]
}

// checkLimit refuses a Service above the limit of its tenant.
func (r Rules) checkLimit(tx store.ReadTx, service *store.Service, tenant string) *tenancy.Refusal {
	if r.ofTenant(tx, tenant).has(service) {
		return nil
	}
	return &tenancy.Refusal{Reason: v1alpha1.TenantLimitReason, Message: fmt.Sprintf(
		"the Service has no endpoints: the tenant has %d older Services whose annotations select endpoints, which is the limit (multiNetwork.tenantLimits.services of the chart): "+
			"delete a Service that is not needed, or ask an administrator for a higher limit",
		r.Services,
	)}
}
