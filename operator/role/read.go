// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package role

import (
	"maps"
	"slices"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// together is how long acknowledgements are collected before a VPC is looked at.
const together = time.Second

// read returns the objects that the roles of a VPC depend on.
func (r *Reconciler) read(tx store.ReadTx, name string) World {
	w := World{Off: r.Off, VPC: VPC{Name: name}, Nodes: map[string]Node{}, Members: roles.MembersByVPC(tx, name)}
	if vpc := store.GetVPC(tx, name); vpc != nil {
		w.VPC = VPC{Name: name, UID: vpc.UID, Dividers: vpc.Dividers, Revision: vpc.RolesRevision}
	}
	wanted := w.VPC.Dividers > 0
	for _, subnet := range store.SubnetsByVPC(tx, name) {
		w.Subnets = append(w.Subnets, Subnet{Name: subnet.Name, UID: subnet.UID, Bouncers: subnet.Bouncers})
		wanted = wanted || subnet.Bouncers > 0
	}
	if !wanted && len(w.Members) == 0 {
		return w
	}
	hostsCount := slices.ContainsFunc(w.Members, func(m *roles.Member) bool { return m.Stage == roles.Leaving })
	for _, row := range store.ListNodes(tx) {
		node := r.node(tx, row, w.VPC.UID)
		hostsCount = hostsCount || node.lacksRoles()
		w.Nodes[node.Name] = node
	}
	if hostsCount {
		w.Hosts = hosts(tx, name)
	}
	return w
}

func (r *Reconciler) node(tx store.ReadTx, row *store.Node, vpcUID string) Node {
	node := Node{
		Name: row.Name, UID: row.UID, Zone: row.Zone, Alive: row.Ready && !row.OutOfService && !row.Deleting,
		Fenced: row.OutOfService, Departing: row.Leaving, Eligible: r.AnyNode || row.RoleLabel,
	}
	if reply := store.GetRollCall(tx, v1alpha1.NodeRollCall(row.Name)); reply != nil && reply.NodeUID == row.UID {
		node.Replied = true
	}
	report := roles.OfNode(tx, row)
	if node.Capable = capable(report); report != nil {
		node.Listed = report.Listed[vpcUID]
	}
	return node
}

// capable reports whether a node's report says that it can use roles; nil means no report.
func capable(report *roles.NodeRoles) bool {
	return report != nil && report.Protocol >= v1alpha1.RoleProtocol
}

// hosts returns the nodes with an Address in a VPC.
func hosts(tx store.ReadTx, vpc string) []string {
	names := map[string]bool{}
	for _, address := range store.AddressesByDomain(tx, vpc) {
		if address.Node != "" {
			names[address.Node] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// source requests a VPC when it, its subnets or its members change, or when a node that lists the
// members reports. It requests all VPCs with roles when a change of a node affects decisions about
// members. It requests a VPC when a node that can't use roles loses an Address in it, which may be
// its last. A new Address needs no look: its node lists no member that leaves.
func source(f *feed.Feed) *feed.Source {
	return feed.NewSource(f, everything,
		feed.On(func(_ store.ReadTx, old, now *store.VPC) []feed.Request { return request(feed.Either(old, now).Name) }),
		feed.On(func(_ store.ReadTx, old, now *store.Subnet) []feed.Request { return request(feed.Either(old, now).VPC) }),
		feed.On(func(_ store.ReadTx, old, now *roles.Member) []feed.Request { return request(feed.Either(old, now).VPC) }),
		feed.On(func(tx store.ReadTx, old, now *store.Node) []feed.Request {
			if old != nil && now != nil && part(old) == part(now) {
				return nil
			}
			return withRoles(tx)
		}),
		feed.On(func(tx store.ReadTx, old, now *store.RollCall) []feed.Request {
			if old != nil && now != nil && old.NodeUID == now.NodeUID {
				return nil
			}
			return withRoles(tx)
		}),
		feed.On(func(tx store.ReadTx, old, now *roles.NodeRoles) []feed.Request {
			if old == nil || now == nil || old.Protocol != now.Protocol || old.NodeUID != now.NodeUID {
				return withRoles(tx)
			}
			return listed(tx, old, now)
		}),
		feed.On(left),
	)
}

// left requests the VPC of an Address that has left a node which can't use roles.
func left(tx store.ReadTx, old, now *store.Address) []feed.Request {
	if old == nil || old.VPC == "" || now != nil && now.Node == old.Node {
		return nil
	}
	if node := store.GetNode(tx, old.Node); node == nil || capable(roles.OfNode(tx, node)) {
		return nil
	}
	return request(old.VPC)
}

func request(vpc string) []feed.Request { return []feed.Request{feed.Now("", vpc)} }

// part returns the part of a node that roles depend on.
func part(n *store.Node) Node {
	return Node{
		UID:       n.UID,
		Zone:      n.Zone,
		Alive:     n.Ready && !n.Deleting,
		Fenced:    n.OutOfService,
		Departing: n.Leaving,
		Eligible:  n.RoleLabel,
	}
}

// listed requests the VPCs whose acknowledged revision has changed on a node.
func listed(tx store.ReadTx, old, now *roles.NodeRoles) []feed.Request {
	var all []feed.Request
	for _, vpc := range store.ListVPCs(tx) {
		if old.Listed[vpc.UID] != now.Listed[vpc.UID] {
			all = append(all, feed.Later(together, "", vpc.Name))
		}
	}
	return all
}

// withRoles requests the VPCs with roles.
func withRoles(tx store.ReadTx) []feed.Request {
	names := map[string]bool{}
	for m := range roles.Members(tx) {
		names[m.VPC] = true
	}
	for _, vpc := range store.ListVPCs(tx) {
		names[vpc.Name] = names[vpc.Name] || vpc.Dividers > 0
	}
	for _, subnet := range store.ListSubnets(tx) {
		names[subnet.VPC] = names[subnet.VPC] || subnet.Bouncers > 0
	}
	var all []feed.Request
	for name, has := range names {
		if has {
			all = append(all, feed.Now("", name))
		}
	}
	return all
}

// everything requests all VPCs, and also VPCs that are gone and have members.
func everything(tx store.ReadTx) []feed.Request {
	all := withRoles(tx)
	for _, vpc := range store.ListVPCs(tx) {
		all = append(all, feed.Now("", vpc.Name))
	}
	return all
}
