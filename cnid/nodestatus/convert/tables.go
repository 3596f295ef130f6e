// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"slices"

	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/cnid/plan"
)

// Tables converts what is complete of VPCs.
func Tables(tables *plan.Tables) map[string]nodestatus.Table {
	if tables == nil {
		return nil
	}
	all := map[string]nodestatus.Table{}
	for vpc, t := range *tables {
		all[vpc] = nodestatus.Table{
			Members: t.Members, Subnets: t.Subnets, Addresses: t.Addresses, OfSubnets: slices.Sorted(maps.Keys(t.OfSubnets)),
		}
	}
	return all
}

// TablesBack converts them back.
func TablesBack(tables map[string]nodestatus.Table) *plan.Tables {
	if tables == nil {
		return nil
	}
	all := plan.Tables{}
	for vpc, t := range tables {
		table := plan.Table{Members: t.Members, Subnets: t.Subnets, Addresses: t.Addresses}
		for _, subnet := range t.OfSubnets {
			if table.OfSubnets == nil {
				table.OfSubnets = map[string]bool{}
			}
			table.OfSubnets[subnet] = true
		}
		all[vpc] = table
	}
	return &all
}
