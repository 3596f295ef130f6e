// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostaccess

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// decision is what the status is to say.
type decision struct {
	ready           bool
	reason, message string
}

func decide(row *store.HostAccess) decision {
	switch {
	case row.Deleting:
		return decision{reason: v1alpha1.DeletingReason, message: "it is being deleted, and grants nothing any more"}
	case len(row.AllowedTenants) == 0:
		return decision{ready: true, reason: v1alpha1.ReadyReason, message: "it grants nothing: spec.allowedTenants is empty"}
	}
	return decision{ready: true, reason: v1alpha1.ReadyReason, message: "new pods of the tenants have what it grants"}
}

// grants says what tenants may have of nodes, in the form that an admission policy
// reads (v1alpha1.HostGrants): a tenant costs it two keys, however many there are.
func grants(tx store.ReadTx) map[string]string {
	lines := map[string][]string{}
	for _, row := range store.ListHostAccesses(tx) {
		if row.Deleting {
			continue
		}
		for _, tenant := range row.AllowedTenants {
			if tenant == v1alpha1.AnyTenant {
				tenant = v1alpha1.HostGrantsOfAll
			}
			lines[tenant] = append(lines[tenant], linesOf(row)...)
		}
	}
	data := map[string]string{}
	for tenant, list := range lines {
		slices.Sort(list)
		if list = slices.Compact(list); len(list) > 0 {
			data[tenant] = strings.Join(list, "\n")
		}
	}
	return data
}

func linesOf(row *store.HostAccess) []string {
	var list []string
	if row.HostNetwork {
		list = append(list, v1alpha1.HostNetworkGrant)
	}
	for _, ports := range row.Ports {
		protocols := []string{ports.Protocol}
		if ports.Protocol == "" {
			protocols = []string{"TCP", "UDP", "SCTP"}
		}
		for _, protocol := range protocols {
			list = append(list, fmt.Sprintf("%s %d %d", protocol, ports.First, ports.Last))
		}
	}
	return list
}
