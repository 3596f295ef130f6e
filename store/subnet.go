// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

const byVPC = "vpc"

var subnets = &table[Subnet]{
	name: "subnet",
	key:  func(s *Subnet) []byte { return textKey(s.Name) },
	meta: func(s *Subnet) *Meta { return &s.Meta },
	indexes: map[string]func(*Subnet) []byte{
		byVPC: func(s *Subnet) []byte { return textKey(s.VPC) },
	},
}

// GetSubnet returns the Subnet object of that name, or nil.
func GetSubnet(tx ReadTx, name string) *Subnet {
	return subnets.get(tx, textKey(name))
}

// Older reports whether a subnet precedes another one: by creation, then name.
func (s *Subnet) Older(other *Subnet) bool { return subnets.byAge(s, other) < 0 }

// SubnetsByVPC returns the subnets that name the VPC, in the order of their
// creation, then name.
func SubnetsByVPC(tx ReadTx, vpc string) []*Subnet {
	return subnets.oldestFirst(tx, byVPC, textKey(vpc))
}

// ListSubnets returns all subnets by name.
func ListSubnets(tx ReadTx) []*Subnet {
	return slices.Collect(subnets.all(tx))
}

// PutSubnet inserts or replaces a subnet.
func PutSubnet(tx Tx, row *Subnet) error {
	_, err := subnets.put(tx, row)
	return err
}

// DeleteSubnet removes a subnet and its cursors if it has that UID, and
// reports whether it did. Addresses of the subnet stay.
func DeleteSubnet(tx Tx, name, uid string) bool {
	if subnets.remove(tx, textKey(name), uid) == nil {
		return false
	}
	dropCursors(tx, name)
	return true
}
