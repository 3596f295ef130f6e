// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/store/client/descriptor"
)

// held has the result of Tables, and the state of reading that it was made of.
type held struct {
	tables *tablesync.Tables
	reads  uint64
}

// Tables returns which tables of the VPCs that the node carries have been read completely.
// A table that the result has is in the store, unless a later result lacks it.
func (s *Sources) Tables() *tablesync.Tables {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held.tables != nil && s.held.reads == s.reads {
		return s.held.tables
	}
	all := tablesync.Tables{}
	for p, f := range s.parts {
		if p.isCarried() || f.synced() {
			addTo(all, p)
		}
	}
	s.held = held{tables: &all, reads: s.reads}
	return s.held.tables
}

// addTo adds a part that has been read, or the part of a VPC, to the tables.
func addTo(all tablesync.Tables, p part) {
	table := all[p.domain]
	switch p.extent {
	case descriptor.CarriedVPC:
	case descriptor.RoleMembers:
		table.Members = true
	case descriptor.AllSubnets:
		table.Subnets = true
	case descriptor.OneSubnet:
		if table.Known == nil {
			table.Known = map[string]bool{}
		}
		table.Known[p.subnet] = true
	case descriptor.AllAddresses:
		table.Addresses = true
	case descriptor.AddressesOfSubnet:
		if table.OfSubnets == nil {
			table.OfSubnets = map[string]bool{}
		}
		table.OfSubnets[p.subnet] = true
	default:
		return
	}
	all[p.domain] = table
}
