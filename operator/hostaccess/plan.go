// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostaccess

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// mostGrants bounds how many ports and ranges of ports all tenants have together, and how many
// tenants. They are one object for admission, which the API server stores up to 1.5 MB.
const mostGrants = 16384

// decide plans the status of an object, whose grants are published or are too many.
func decide(row *external.HostAccess, tooMany bool) verdict.Verdict {
	switch {
	case row.Deleting:
		return verdict.Deleting("it is being deleted, and grants nothing any more")
	case len(row.AllowedTenants) == 0:
		return verdict.Use("it grants nothing: spec.allowedTenants is empty")
	}
	if tooMany {
		return verdict.Refuse(v1alpha1.TooManyGrantsReason, fmt.Sprintf(
			"it grants nothing: with it and with older objects there would be more than %d grants; name fewer tenants, or ranges instead of single ports, with one protocol",
			mostGrants,
		))
	}
	return verdict.Use("new pods of the tenants have what it grants")
}

// grants returns the ports and networks of nodes that tenants may use, and the names of the objects
// that would grant too much beside older ones. The named objects grant nothing.
func grants(tx store.ReadTx) (all map[string]v1alpha1.HostGrant, tooMany map[string]bool) {
	all, tooMany = map[string]v1alpha1.HostGrant{}, map[string]bool{}
	left := mostGrants
	for _, row := range external.ListHostAccesses(tx) {
		if row.Deleting || !row.HostNetwork && len(row.Ports) == 0 {
			continue
		}
		size := len(row.AllowedTenants) * (1 + len(rangesOf(row)))
		if size > left {
			tooMany[row.Name] = true
			continue
		}
		left -= size
		for _, tenant := range row.AllowedTenants {
			grant := all[tenant]
			grant.HostNetwork = grant.HostNetwork || row.HostNetwork
			grant.Ports = append(grant.Ports, rangesOf(row)...)
			all[tenant] = grant
		}
	}
	for tenant, grant := range all {
		slices.SortFunc(grant.Ports, compareRanges)
		grant.Ports = slices.Compact(grant.Ports)
		all[tenant] = grant
	}
	return all, tooMany
}

// rangesOf returns the ports of a row, once for each protocol.
func rangesOf(row *external.HostAccess) []v1alpha1.HostPortRange {
	var list []v1alpha1.HostPortRange
	for _, ports := range row.Ports {
		protocols := []string{ports.Protocol}
		if ports.Protocol == "" {
			protocols = []string{"TCP", "UDP", "SCTP"}
		}
		for _, protocol := range protocols {
			list = append(list, v1alpha1.HostPortRange{Protocol: protocol, First: int32(ports.First), Last: int32(ports.Last)})
		}
	}
	return list
}

func compareRanges(a, b v1alpha1.HostPortRange) int {
	return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
}
