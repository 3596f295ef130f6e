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
	// ForServices: its addresses are those of load balancers, not of pods.
	ForServices bool
	// Cursors are the last addresses that the operator chose, at most one per family.
	Cursors []netip.Addr
	Ready   bool
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

// usage has the number of addresses per Subnet object, and the last assigned ones. It
// needs no Subnet row.
type usage struct {
	subnet string
	// count of addresses and last chosen address, by familyIndex.
	count  [2]int64
	cursor [2]netip.Addr
}

var usages = memory.Define(memory.Table[usage]{
	Name: "usage",
	Key:  func(u *usage) []byte { return memory.TextKey(u.subnet) },
})

// familyIndex is 0 for IPv4 and 1 for IPv6.
func familyIndex(is4 bool) int {
	if is4 {
		return 0
	}
	return 1
}

// CountAddressesBySubnet returns how many addresses of a Subnet object are in
// the store, per family. It costs the same however many there are.
func CountAddressesBySubnet(tx ReadTx, subnet string) (v4, v6 int64) {
	row := usages.Get(tx, memory.TextKey(subnet))
	if row == nil {
		return 0, 0
	}
	return row.count[0], row.count[1]
}

// Cursor returns the last chosen address of a subnet in a family: the one of SetCursor,
// else that of the row's status. It is not valid if there is none.
func Cursor(tx ReadTx, subnet *Subnet, is4 bool) netip.Addr {
	if row := usages.Get(tx, memory.TextKey(subnet.Name)); row != nil {
		if live := row.cursor[familyIndex(is4)]; live.IsValid() {
			return live
		}
	}
	for _, ip := range subnet.Cursors {
		if ip.Is4() == is4 {
			return ip
		}
	}
	return netip.Addr{}
}

// SetCursor records the last chosen address. It is not in the Subnet's row, whose status
// lags behind.
func SetCursor(tx Tx, subnet string, ip netip.Addr) error {
	return changeUsage(tx, subnet, func(u *usage) { u.cursor[familyIndex(ip.Is4())] = ip })
}

func dropCursors(tx Tx, subnet string) {
	if usages.Get(tx, memory.TextKey(subnet)) != nil {
		memory.Must(changeUsage(tx, subnet, func(u *usage) { u.cursor = [2]netip.Addr{} }))
	}
}

func countAddress(tx Tx, row *Address, delta int64) error {
	if !addresses.HasIndex(tx, bySubnet) {
		return nil
	}
	return changeUsage(tx, row.Subnet, func(u *usage) { u.count[familyIndex(row.IP.Is4())] += delta })
}

func changeUsage(tx Tx, subnet string, change func(*usage)) error {
	next := usage{subnet: subnet}
	if held := usages.Get(tx, memory.TextKey(subnet)); held != nil {
		next = *held
	}
	change(&next)
	if next == (usage{subnet: subnet}) {
		usages.Remove(tx, memory.TextKey(subnet), "")
		return nil
	}
	return usages.Insert(tx, &next, nil, memory.NewContent)
}
