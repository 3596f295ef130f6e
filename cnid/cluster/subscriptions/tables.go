// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"cmp"
	"maps"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// tablesAtMost limits how many subnets of one VPC have a watch of their own on a node that
// needs their tables. Beyond the limit one watch has all Addresses of the VPC.
const tablesAtMost = 64

// tables finds how much of the Subnets and Addresses of one VPC a node follows: all of it,
// unless others have it for the node as bouncers and dividers (docs/design/140). What has
// been read decides what to follow next: the VPC, its role members, its Subnets.
type tables struct {
	tx        store.ReadTx
	node      string
	vpc       string
	isDefault bool
	// hosts are the names of the subnets of the node's Addresses in the VPC; nil: the node
	// has no interface in the VPC.
	hosts map[string]bool
	// read reports whether a part has been read.
	read func(part) bool
	// last are the parts that were needed before.
	last map[part]bool

	members map[string][]*roles.Member
}

// needed returns the parts beside that of the VPC itself.
func (t *tables) needed() []part {
	if !t.read(part{domain: t.vpc}) {
		return nil
	}
	row := store.GetVPC(t.tx, t.vpc)
	if row == nil || row.Dividers == 0 && row.RolesRevision == 0 {
		return []part{t.all(descriptor.AllSubnets), t.all(descriptor.AllAddresses)} // there never was a member
	}
	parts := []part{t.all(descriptor.RoleMembers)}
	if !t.read(parts[0]) {
		return parts
	}
	t.members = map[string][]*roles.Member{}
	for _, m := range roles.MembersByVPC(t.tx, t.vpc) {
		if m.VPCUID == row.UID {
			t.members[m.Key()] = append(t.members[m.Key()], m)
		}
	}
	if t.uses(row.Dividers, row.UID, t.all(descriptor.AllSubnets)) {
		return append(parts, t.divided(row)...)
	}
	return append(parts, t.undivided(row)...)
}

func (t *tables) all(extent descriptor.Extent) part { return part{domain: t.vpc, extent: extent} }

func (t *tables) of(subnet string, extent descriptor.Extent) part {
	return part{domain: t.vpc, subnet: subnet, extent: extent}
}

// uses reports whether the node relies on the members of a role, of which n are wanted, and
// does not follow the role's table itself. A node that follows it goes on until nobody is
// about to join, so that it does not rely on the first of several members alone.
func (t *tables) uses(n int, key string, table part) bool {
	var serving, joining int
	for _, m := range t.members[key] {
		switch {
		case roles.IsOn(t.tx, m, t.node):
			return false
		case m.Stage == roles.Serving:
			serving++
		case m.Stage == roles.Joining:
			joining++
		}
	}
	return n > 0 && serving > 0 && (joining == 0 || !t.last[table])
}

// undivided returns the parts of a node that has all Subnets.
func (t *tables) undivided(row *store.VPC) []part {
	parts := []part{t.all(descriptor.AllSubnets)}
	if !t.read(parts[0]) {
		return parts
	}
	subnets := store.SubnetsByVPC(t.tx, t.vpc)
	needed := t.bounced()
	own := len(needed)
	for _, subnet := range subnets {
		if t.hosts != nil && !t.usesBouncers(row, subnet) {
			needed[subnet.Name] = true
		}
	}
	every := !slices.ContainsFunc(subnets, func(subnet *store.Subnet) bool { return !needed[subnet.Name] })
	if t.hosts != nil && (every || len(needed)-own > tablesAtMost) {
		return append(parts, t.all(descriptor.AllAddresses))
	}
	return append(parts, t.tablesOf(needed)...)
}

// divided returns the parts of a node that asks dividers about Subnets that it has no
// interface in.
func (t *tables) divided(row *store.VPC) []part {
	var parts []part
	needed := t.bounced()
	for _, name := range slices.Sorted(maps.Keys(t.hosts)) {
		one := t.of(name, descriptor.OneSubnet)
		parts = append(parts, one)
		if subnet := store.GetSubnet(t.tx, name); t.read(one) && subnet != nil && !t.usesBouncers(row, subnet) {
			needed[name] = true
		}
	}
	for name := range t.bounced() {
		if !t.hosts[name] {
			parts = append(parts, t.of(name, descriptor.OneSubnet))
		}
	}
	return append(parts, t.tablesOf(needed)...)
}

func (t *tables) usesBouncers(row *store.VPC, subnet *store.Subnet) bool {
	table := t.of(subnet.Name, descriptor.AddressesOfSubnet)
	if t.last[t.all(descriptor.AllAddresses)] {
		table = t.all(descriptor.AllAddresses)
	}
	return t.uses(roles.Bouncers(subnet.Bouncers, row.Dividers), subnet.UID, table)
}

// bounced are the names of the subnets of which the node is a bouncer.
func (t *tables) bounced() map[string]bool {
	names := map[string]bool{}
	for _, list := range t.members {
		for _, m := range list {
			if m.Subnet != "" && roles.IsOn(t.tx, m, t.node) {
				names[m.Subnet] = true
			}
		}
	}
	return names
}

// tablesOf returns the parts of the tables of subnets. Every node needs the addresses of
// all nodes, for Services that clients outside reach.
func (t *tables) tablesOf(subnets map[string]bool) []part {
	var parts []part
	for name := range subnets {
		parts = append(parts, t.of(name, descriptor.AddressesOfSubnet))
	}
	if t.isDefault {
		parts = append(parts, t.all(descriptor.AddressesOfNodes))
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.String(), b.String()) })
	return parts
}
