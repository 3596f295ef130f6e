// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/descriptor"
	"github.com/alioth-net/alioth/store/multinet"
	"github.com/alioth-net/alioth/store/services"
)

// part of the API that is added and removed: of a VPC by its name, or of a network outside
// of every VPC by its domain.
type part struct {
	domain string
	extent extent
}

// extent is how much of a domain is followed.
type extent int

const (
	// carried is all of a VPC or network whose packets the node carries.
	carried extent = iota
	// described is what an interface of another CNI plugin needs.
	described
	// exposed is what a Service for clients outside needs.
	exposed
)

// exposedAtMost limits how many VPCs have a watch of their own for Services that clients
// outside reach. Tenants make these Services and name the VPCs. Beyond the limit one watch
// has the VPC objects of the whole cluster.
const exposedAtMost = 64

// everyExposed stands for every VPC that is exposed.
var everyExposed = part{extent: exposed}

// String describes what it is, for the log.
func (p part) String() string {
	switch {
	case p.isNetwork():
		return "network " + p.domain
	case p.extent == described:
		return "VPC " + p.domain + " for other CNI plugins"
	case p == everyExposed:
		return "all VPC objects for Services"
	case p.extent == exposed:
		return "VPC " + p.domain + " for Services"
	}
	return "VPC " + p.domain
}

func (p part) isNetwork() bool { return store.IsNetworkDomain(p.domain) }

// isCarried reports whether the node may program the VPC.
func (p part) isCarried() bool { return p.extent == carried && !p.isNetwork() }

// scopesOf returns the scopes of a part, of all kinds.
func scopesOf(kinds []*descriptor.Kind, p part) []descriptor.Scope {
	var scopes []descriptor.Scope
	for _, kind := range kinds {
		narrow, name := kind.OfVPC, p.domain
		switch {
		case p.isNetwork():
			narrow, name = kind.OfNetwork, store.NetworkUID(p.domain)
		case p.extent == described:
			narrow = kind.OfDescribedVPC
		case p.extent == exposed:
			narrow = kind.OfExposedVPC
		}
		switch {
		case narrow == nil:
		case p == everyExposed:
			scopes = append(scopes, descriptor.Scope{Kind: kind})
		default:
			scopes = append(scopes, narrow(name))
		}
	}
	return scopes
}

// needed are the parts that this node needs. The map must not be changed.
func (s *Sources) needed(tx store.ReadTx) map[part]bool {
	s.looking.Lock()
	defer s.looking.Unlock()
	if records := s.records(); s.tracker.stale(tx, records, s.needs) {
		s.last = s.find(tx, records)
	}
	return s.last
}

// needs reports whether a change may affect the result of needed.
func (s *Sources) needs(c store.Change) bool {
	for _, row := range []any{c.Old, c.New} {
		switch row := row.(type) {
		case *store.Address:
			if row.Node == s.cfg.Node {
				return true
			}
		case *multinet.Claim:
			return true
		case *store.EndpointSlice:
			if store.IsNetworkDomain(row.Domain) {
				return true
			}
		case *store.Service:
			if s.cfg.NodePorts && services.IsExposed(row) {
				return true
			}
		case *store.Network, *store.Namespace: // they decide the VPC of a Service
			if s.cfg.NodePorts {
				return true
			}
		}
	}
	return false
}

// find returns the VPCs with an Address or attachment on this node, those that exposed
// Services name, and the networks with an attachment here in which there are Services.
func (s *Sources) find(tx store.ReadTx, records []journal.Record) map[part]bool {
	parts := map[part]bool{{domain: s.cfg.DefaultVPC}: true}
	for _, rec := range records {
		if rec.Carried() {
			parts[part{domain: rec.VPC}] = true
		}
	}
	for _, row := range store.AddressesByNode(tx, s.cfg.Node) {
		switch {
		case row.VPC == "":
		case row.External:
			parts[part{domain: row.VPC, extent: described}] = true
		default:
			parts[part{domain: row.VPC}] = true
		}
	}
	for _, claim := range multinet.ClaimsByNode(tx, s.cfg.Node) {
		if !claim.Released && services.InNetwork(tx, claim.Network) {
			parts[part{domain: claim.Network.Domain()}] = true
		}
	}
	s.findExposed(tx, parts)
	return parts
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
			more = append(more, part{domain: vpc, extent: exposed})
		}
	}
	if len(more) > exposedAtMost {
		more = []part{everyExposed}
	}
	for _, p := range more {
		parts[p] = true
	}
}
