// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tablesync reports which tables of VPCs a node has read completely: what such a table lacks
// does not exist (docs/design/140).
package tablesync

import (
	"maps"
	"reflect"
)

// Tables are the complete tables in the store by name of the VPC. Of a VPC that is not among
// them nothing is complete.
type Tables map[string]Table

// Table names the rows of a VPC that the store has completely.
type Table struct {
	// Members reports that it has all members of the VPC's roles.
	Members bool
	// Subnets reports that it has all Subnets of the VPC, Addresses all its Addresses.
	Subnets, Addresses bool
	// Known are the names of Subnets that it has where it lacks others.
	Known map[string]bool
	// OfSubnets are the names of the Subnets whose Addresses it has completely.
	OfSubnets map[string]bool
}

// Of returns the Table of a VPC. Nil tables stand for a store that has everything.
func (t *Tables) Of(vpc string) Table {
	if t == nil {
		return Table{Members: true, Subnets: true, Addresses: true}
	}
	return (*t)[vpc]
}

// Knows reports whether a Subnet is in the store.
func (t Table) Knows(subnet string) bool { return t.Subnets || t.Known[subnet] }

// Has reports whether all Addresses of a subnet are in the store.
func (t Table) Has(subnet string) bool { return t.Addresses || t.OfSubnets[subnet] }

// Common returns the entries that are complete in both tables. An entry that was complete
// before a snapshot of the store, and still is after it, is complete in the snapshot.
func Common(a, b *Tables) *Tables {
	if a == b || a == nil {
		return b
	}
	all := Tables{}
	for vpc, x := range *a {
		y, known := (*b)[vpc]
		if !known {
			continue
		}
		both := Table{Members: x.Members && y.Members, Subnets: x.Subnets && y.Subnets, Addresses: x.Addresses && y.Addresses}
		if !both.Subnets {
			both.Known = commonNames(x.Known, y.Known, x.Knows, y.Knows)
		}
		if !both.Addresses {
			both.OfSubnets = commonNames(x.OfSubnets, y.OfSubnets, x.Has, y.Has)
		}
		all[vpc] = both
	}
	return &all
}

// commonNames returns the names that satisfy both holdsA and holdsB. It returns nil if no
// name does.
func commonNames(a, b map[string]bool, holdsA, holdsB func(string) bool) map[string]bool {
	var both map[string]bool
	for _, names := range []map[string]bool{a, b} {
		for name := range names {
			if !holdsA(name) || !holdsB(name) {
				continue
			}
			if both == nil {
				both = map[string]bool{}
			}
			both[name] = true
		}
	}
	return both
}

// Changed returns the names of the VPCs whose complete parts differ between the tables.
func (t *Tables) Changed(now *Tables) map[string]bool {
	names := map[string]bool{}
	if t == now || t == nil || now == nil {
		return names
	}
	for name, table := range *now {
		if last, known := (*t)[name]; !known || !reflect.DeepEqual(last, table) {
			names[name] = true
		}
	}
	for name := range maps.Keys(*t) {
		if _, known := (*now)[name]; !known {
			names[name] = true
		}
	}
	return names
}
