// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// changeTables makes another part of the store complete.
func (r *randomWorld) changeTables() {
	if r.IntN(8) == 0 {
		r.tables = nil
		return
	}
	tables := tablesync.Tables{}
	for _, vpc := range []string{"default", "blue", "red", "green"} {
		if r.IntN(4) == 0 {
			continue
		}
		table := tablesync.Table{Members: r.IntN(4) > 0, Subnets: r.IntN(2) == 0, Addresses: r.IntN(2) == 0, OfSubnets: map[string]bool{}, Known: map[string]bool{}}
		for _, subnet := range []string{"s1", "s2", "s3"} {
			if r.IntN(2) == 0 {
				table.OfSubnets[subnet] = true
			}
			if r.IntN(2) == 0 {
				table.Known[subnet] = true
			}
		}
		tables[vpc] = table
	}
	r.tables = &tables
}

// changeMember makes a node a member of a role, or no longer.
func (r *randomWorld) changeMember(tx store.Tx, remove bool) error {
	name, vpc := r.of("m1", "m2", "m3", "m4", "m5"), r.vpcName()
	if remove {
		roles.DeleteMember(tx, name, name)
		return nil
	}
	node := r.of("node1", "node2", "node3")
	row := &roles.Member{
		Meta: store.Meta{UID: name}, Name: name, VPC: vpc, VPCUID: r.of(vpc, vpc, vpc, vpc+" again"), Node: node, NodeUID: r.of(node, node, node, "another"),
		Stage: r.of(roles.Joining, roles.Serving, roles.Serving, roles.Leaving), Revision: int64(1 + r.IntN(5)),
	}
	if r.IntN(3) > 0 {
		row.Subnet = r.of("s1", "s2", "s3")
		row.SubnetUID = row.Subnet
	}
	return roles.PutMember(tx, row)
}
