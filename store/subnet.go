// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store/memory"
)

// Subnet is the row of a Subnet object. Key: Name.
type Subnet struct {
	Meta
	Name string
	// VPC is the name of the VPC, which need not exist.
	VPC string
	// ShortName is spec.name, or the object's name if that is empty.
	ShortName string
	// Prefixes, at most one per family.
	Prefixes []netip.Prefix
	// Gateways, one per family of Prefixes, defaults filled in.
	Gateways []netip.Addr
	// Reserved ranges, both ends included.
	Reserved []AddrRange
	// ForServices reports that the addresses are for load balancers, and not for pods.
	ForServices bool
	// Cursors are the last addresses that an operator of a release without Usage objects
	// chose, at most one per family.
	Cursors []netip.Addr
	// Bouncers is spec.bouncers, or 0.
	Bouncers int
	Ready    bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

// AddrRange is a range of addresses of one family, both ends included.
type AddrRange struct{ First, Last netip.Addr }

const byVPC = "vpc"

var subnets = memory.Define(memory.Table[Subnet]{
	Name: "subnet",
	Key:  func(s *Subnet) []byte { return memory.TextKey(s.Name) },
	Meta: func(s *Subnet) *Meta { return &s.Meta },
	Indexes: map[string]func(*Subnet) []byte{
		byVPC: func(s *Subnet) []byte { return memory.TextKey(s.VPC) },
	},
})

// GetSubnet returns the Subnet object of that name, or nil.
func GetSubnet(tx ReadTx, name string) *Subnet {
	return subnets.Get(tx, memory.TextKey(name))
}

// Older reports whether a subnet precedes another one: by creation, then name.
func (s *Subnet) Older(other *Subnet) bool { return subnets.ByAge(s, other) < 0 }

// SubnetsByVPC returns the subnets that name the VPC, in the order of their
// creation, then name.
func SubnetsByVPC(tx ReadTx, vpc string) []*Subnet {
	return subnets.OldestFirst(tx, byVPC, memory.TextKey(vpc))
}

// ListSubnets returns all subnets by name.
func ListSubnets(tx ReadTx) []*Subnet {
	return slices.Collect(subnets.All(tx))
}

// PutSubnet inserts or replaces a subnet.
func PutSubnet(tx Tx, row *Subnet) error {
	_, err := subnets.Put(tx, row)
	return err
}

// DeleteSubnet removes a subnet and its cursors if it has that UID, and
// reports whether it did. Addresses of the subnet stay.
func DeleteSubnet(tx Tx, name, uid string) bool {
	if subnets.Remove(tx, memory.TextKey(name), uid) == nil {
		return false
	}
	dropCursors(tx, name)
	return true
}
