// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
)

// Tables converts the complete tables of VPCs.
func Tables(tables *tablesync.Tables) map[string]nodestatus.Table {
	if tables == nil {
		return nil
	}
	all := map[string]nodestatus.Table{}
	for vpc, t := range *tables {
		all[vpc] = nodestatus.Table{
			Members: t.Members, Subnets: t.Subnets, Addresses: t.Addresses,
			Known: slices.Sorted(maps.Keys(t.Known)), OfSubnets: slices.Sorted(maps.Keys(t.OfSubnets)),
		}
	}
	return all
}

// TablesBack converts them back.
func TablesBack(tables map[string]nodestatus.Table) *tablesync.Tables {
	if tables == nil {
		return nil
	}
	all := tablesync.Tables{}
	for vpc, t := range tables {
		all[vpc] = tablesync.Table{
			Members: t.Members, Subnets: t.Subnets, Addresses: t.Addresses, Known: setOf(t.Known), OfSubnets: setOf(t.OfSubnets),
		}
	}
	return &all
}

// setOf returns names as a set, nil for none.
func setOf(names []string) map[string]bool {
	var set map[string]bool
	for _, name := range names {
		if set == nil {
			set = map[string]bool{}
		}
		set[name] = true
	}
	return set
}
