// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package subscriptions

import (
	"slices"

	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/roles"
	"github.com/alioth-net/alioth/store/rules/services"
)

// part of the API that is added and removed.
type part struct {
	// domain is the name of the VPC, or the domain of a network outside of every VPC.
	domain string
	// subnet is the name of the Subnet object, of an extent that has one.
	subnet string
	// namespace is the name of a namespace, of an extent that has one.
	namespace string
	extent    descriptor.Extent
}

// exposedAtMost limits how many VPCs have a watch of their own for Services that clients
// outside reach. Tenants make these Services and name the VPCs. Beyond the limit one watch
// has the VPC objects of the whole cluster.
const exposedAtMost = 64

// everyExposed stands for every VPC that is exposed.
var everyExposed = part{extent: descriptor.ExposedVPC}

// String describes the part, for the log.
func (p part) String() string {
	switch p.extent {
	case descriptor.ServedNetwork:
		return "network " + p.domain
	case descriptor.ServedVPC:
		return "Services of VPC " + p.domain
	case descriptor.DescribedVPC:
		return "VPC " + p.domain + " for other CNI plugins"
	case descriptor.ExposedVPC:
		if p == everyExposed {
			return "all VPC objects for Services"
		}
		return "VPC " + p.domain + " for Services"
	case descriptor.RoleMembers:
		return "role members of VPC " + p.domain
	case descriptor.AllSubnets:
		return "subnets of VPC " + p.domain
	case descriptor.OneSubnet:
		return "subnet " + p.subnet + " of VPC " + p.domain
	case descriptor.AllAddresses:
		return "addresses of VPC " + p.domain
	case descriptor.AddressesOfSubnet:
		return "addresses of subnet " + p.subnet + " of VPC " + p.domain
	case descriptor.AddressesOfNodes:
		return "addresses of nodes"
	case descriptor.UsedNamespace:
		return "namespace " + p.namespace
	}
	return "VPC " + p.domain
}

// isCarried reports whether the node may program the VPC.
func (p part) isCarried() bool { return p.extent == descriptor.CarriedVPC }

// name returns the argument of the part's scopes.
func (p part) name() string {
	switch {
	case p.subnet != "":
		return p.subnet
	case p.extent == descriptor.UsedNamespace:
		return p.namespace
	case p.extent == descriptor.ServedNetwork:
		return store.NetworkUID(p.domain)
	}
	return p.domain
}

// scopesOf returns the scopes of a part, of all kinds.
func scopesOf(kinds []*descriptor.Kind, p part) []descriptor.Scope {
	var scopes []descriptor.Scope
	for _, kind := range kinds {
		narrow := kind.Of[p.extent]
		switch {
		case narrow == nil:
		case p == everyExposed:
			scopes = append(scopes, descriptor.Scope{Kind: kind})
		default:
			scopes = append(scopes, narrow(p.name()))
		}
	}
	return scopes
}

// needed returns the parts that this node needs. The map must not be changed.
func (s *Sources) needed(tx store.ReadTx) map[part]bool {
	s.looking.Lock()
	defer s.looking.Unlock()
	read := s.reading()
	if records := s.records.Records(); s.tracker.stale(tx, records, s.needs) || read != s.lastRead {
		s.last, s.lastRead = s.find(tx, records), read
	}
	return s.last
}

// needs reports whether a change may affect the result of needed.
func (s *Sources) needs(c store.Change) bool {
	if s.exposesOthers(c) {
		return true
	}
	return slices.ContainsFunc([]any{c.Old, c.New}, func(row any) bool { return s.decides(row) || s.decidesServices(row) })
}

// decides reports whether a row decides about the VPCs and networks on this node, and their
// tables.
func (s *Sources) decides(row any) bool {
	switch row := row.(type) {
	case *store.Address:
		return row.Node == s.cfg.Node
	case *multinet.Claim, *roles.Member, *store.VPC, *store.Subnet:
		return true
	case *store.Node: // its UID decides about its roles
		return row.Name == s.cfg.Node
	case *store.Pod: // its ports of the node need its namespace
		return s.cfg.ScaledEndpoints && len(row.HostPorts) > 0
	}
	return false
}

// decidesServices reports whether a row decides about Services in networks outside of every VPC,
// or about the VPCs of Services that clients outside reach. The operator's verdicts decide
// nothing else.
func (s *Sources) decidesServices(row any) bool {
	if s.cfg.ScaledEndpoints {
		return false
	}
	switch row := row.(type) {
	case *store.EndpointSlice:
		return store.IsNetworkDomain(row.Domain)
	case *store.Network, *store.Namespace: // they decide the VPC of a Service
		return s.cfg.NodePorts
	}
	return false
}

// exposesOthers reports whether a change may affect which VPCs exposed Services name.
func (s *Sources) exposesOthers(c store.Change) bool {
	if s.cfg.ScaledEndpoints || !s.cfg.NodePorts {
		return false
	}
	was, _ := c.Old.(*store.Service)
	is, _ := c.New.(*store.Service)
	return !services.SameExposure(was, is)
}

// find returns the VPCs with an Address or attachment on this node, and the VPCs with the node as
// a role member, with their tables; the networks with an attachment here with Services; and
// without verdicts of the operator the VPCs that exposed Services name, with them the namespaces
// that decide about ports of the node.
func (s *Sources) find(tx store.ReadTx, records []journal.Record) map[part]bool {
	parts := map[part]bool{}
	hosted := s.findHosted(tx, records, parts)
	for _, m := range roles.MembersByNode(tx, s.cfg.Node) {
		if _, known := hosted[m.VPC]; !known && roles.IsOn(tx, m, s.cfg.Node) {
			hosted[m.VPC] = nil
		}
	}
	for vpc, subnets := range hosted {
		parts[part{domain: vpc}] = true
		if s.cfg.ScaledEndpoints && subnets != nil { // a role member translates no addresses
			parts[part{domain: vpc, extent: descriptor.ServedVPC}] = true
		}
		t := tables{
			tx:        tx,
			node:      s.cfg.Node,
			vpc:       vpc,
			isDefault: vpc == s.cfg.DefaultVPC,
			hosts:     subnets,
			read:      s.isRead,
			last:      s.last,
		}
		for _, p := range t.needed() {
			parts[p] = true
		}
	}
	for _, claim := range multinet.ClaimsByNode(tx, s.cfg.Node) {
		// The networks with Services are not known before their ScaledEndpoints are followed.
		if !claim.Released && (s.cfg.ScaledEndpoints || services.InNetwork(tx, claim.Network)) {
			parts[part{domain: claim.Network.Domain(), extent: descriptor.ServedNetwork}] = true
		}
	}
	if s.cfg.ScaledEndpoints {
		s.findNamespaces(tx, records, parts)
	} else {
		s.findExposed(tx, parts)
	}
	return parts
}

// findHosted returns the VPCs with an interface on this node, each with the names of the subnets
// of its Addresses here. It adds VPCs with only interfaces of other CNI plugins to parts.
func (s *Sources) findHosted(
	tx store.ReadTx,
	records []journal.Record,
	parts map[part]bool,
) map[string]map[string]bool {
	hosted := map[string]map[string]bool{s.cfg.DefaultVPC: {}}
	of := func(vpc string) map[string]bool {
		if hosted[vpc] == nil {
			hosted[vpc] = map[string]bool{}
		}
		return hosted[vpc]
	}
	for _, rec := range records {
		if rec.Carried() {
			of(rec.VPC)
		}
	}
	for _, row := range store.AddressesByNode(tx, s.cfg.Node) {
		switch {
		case row.VPC == "":
		case row.External:
			parts[part{domain: row.VPC, extent: descriptor.DescribedVPC}] = true
		default:
			of(row.VPC)[row.Subnet] = true
		}
	}
	return hosted
}

// findExposed adds the VPCs that exposed Services name. Those that the node carries have a
// watch already.
func (s *Sources) findExposed(tx store.ReadTx, parts map[part]bool) {
	if !s.cfg.NodePorts {
		return
	}
	var more []part
	for vpc := range services.ExposedVPCs(tx, s.cfg.DefaultVPC) {
		if !parts[part{domain: vpc}] {
			more = append(more, part{domain: vpc, extent: descriptor.ExposedVPC})
		}
	}
	if len(more) > exposedAtMost {
		more = []part{everyExposed}
	}
	for _, p := range more {
		parts[p] = true
	}
}
