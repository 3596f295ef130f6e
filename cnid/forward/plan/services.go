// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/netip"

	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/store"
)

// forServices returns the part of the configuration that Services depend on.
func (cfg Config) forServices() serviceplan.Config {
	return serviceplan.Config{
		Node: cfg.Node, DefaultVPC: cfg.DefaultVPC, Shadows: cfg.Shadows, ServiceRanges: cfg.ServiceRanges,
		SharedServices: cfg.SharedServices,
		TunnelPort:     cfg.TunnelPort, NodePorts: cfg.NodePorts, ScaledEndpoints: cfg.ScaledEndpoints,
	}
}

// hereForServices describes the planned VPCs and networks to the planner of Services. A node
// that only forwards packets of a VPC, as a role member, translates none of them.
func (p *Planner) hereForServices(tx store.ReadTx) *serviceplan.Here {
	now := &serviceplan.Here{Numbers: maps.Clone(p.domains.numbers)}
	for name, v := range p.vpcs {
		if v.part != nil && len(v.part.Interfaces) > 0 {
			now.Numbers[name] = v.here.vni
		}
	}
	if !p.in.NodePorts {
		return now
	}
	now.Reached = p.reachedHere(tx)
	if home := p.vpcs[p.in.DefaultVPC]; home != nil {
		now.Relays = len(home.here.node.Addrs) > 0
	}
	return now
}

// reachedHere returns serviceplan.Here.Reached.
func (p *Planner) reachedHere(tx store.ReadTx) map[serviceplan.VPCAddress]netip.Addr {
	reached := map[serviceplan.VPCAddress]netip.Addr{}
	for _, v := range p.vpcs {
		for _, rec := range v.here.live {
			for _, prefix := range rec.Addrs {
				if shadow := shadowOf(rec, prefix.Addr()); shadow.IsValid() {
					reached[serviceplan.VPCAddress{VPC: rec.VPC, IP: prefix.Addr()}] = shadow
				}
			}
		}
	}
	if self := store.GetNode(tx, p.in.Node); self != nil {
		for _, own := range self.Addresses {
			reached[serviceplan.VPCAddress{VPC: p.in.DefaultVPC, IP: own}] = own
		}
	}
	return reached
}
