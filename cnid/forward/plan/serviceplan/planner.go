// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceplan

import (
	"net/netip"
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

// Planner plans the Services of one node again and again: inside of VPCs and of networks
// outside of VPCs, shared with all VPCs, and for clients outside. A node has thousands of
// Services, and single Services change all the time. The zero value has planned nothing yet.
type Planner struct {
	planned map[Ref]*servicePlan
	// members has the Services of a VPC by its name, and of a network outside by its domain.
	members map[string]map[Ref]*servicePlan
	// naming has the Services whose slices name an address of their VPC or network.
	naming map[VPCAddress][]*servicePlan
	// here is the input of the last plan.
	here Here

	// vpcs has the virtual addresses of VPCs by name, and of networks outside by domain.
	// shared has the virtual addresses of the Services that every VPC reaches.
	vpcs      map[string]*virtualAddresses
	shared    *virtualAddresses
	frontends frontends
	health    healthChecks
	exposures map[string]*Exposure
}

// servicePlan is the plan of one Service. It is never changed: another one replaces it.
type servicePlan struct {
	ref Ref
	// row has the fields that order Services by age, and nothing else.
	row store.Service
	// vpc is the name of the Service's VPC, or "". outside has a plan for each network outside
	// of every VPC with backends of the Service, with its domain as vpc.
	vpc     string
	outside []*servicePlan
	// shared reports that services are for every VPC, inside that they are for the
	// Service's own.
	shared, inside bool
	services       []state.Service
	usage          services.Usage
	// named has the addresses that the Service's slices name.
	named []netip.Addr
	// wide reports that the plan depends on nodes, ranges and tenants too: see services.IsWide.
	wide bool
	// exposed reports that clients outside reach the Service, by the following fields.
	exposed   bool
	frontends []*ruleset.Frontend
	// preserves reports that its pods see the addresses of clients outside.
	preserves bool
	// ports has the node ports that pods of its VPC may connect to.
	ports  []state.NodePort
	health *HealthCheck
}

func byAge(a, b *servicePlan) int { return services.Age(&a.row, &b.row) }

// Plan plans the stale Services, and reports whether anything changed. If here is nil, the
// VPCs and networks of the node are the same as for the last plan.
func (p *Planner) Plan(tx store.ReadTx, cfg Config, here *Here, stale *Stale) (changed bool) {
	if p.planned == nil {
		*p = Planner{
			planned: map[Ref]*servicePlan{}, members: map[string]map[Ref]*servicePlan{}, naming: map[VPCAddress][]*servicePlan{},
			vpcs: map[string]*virtualAddresses{}, shared: newVirtualAddresses(), frontends: newFrontends(),
			exposures: map[string]*Exposure{},
		}
	}
	if here != nil {
		p.meet(*here, stale)
	}
	p.build(newBuilder(tx, cfg, p.here), p.resolve(tx, cfg, stale))
	return p.settle()
}

// build plans Services. The oldest come first, so that most lists by age grow at their end.
func (p *Planner) build(b *builder, refs map[Ref]bool) {
	var all []*servicePlan
	for ref := range refs {
		if now := b.service(ref); now != nil {
			all = append(all, now)
		} else {
			p.replace(ref, nil)
		}
	}
	slices.SortFunc(all, byAge)
	for _, now := range all {
		p.replace(now.ref, now)
	}
}

// meet notes the VPCs and networks of the node, and marks the Services that were planned with
// other ones.
func (p *Planner) meet(now Here, stale *Stale) {
	last := p.here
	for name, number := range now.Numbers {
		if last.Numbers[name] != number {
			stale.VPCs[name] = true
		}
	}
	for name := range last.Numbers {
		if now.Numbers[name] == 0 {
			stale.VPCs[name] = true
		}
	}
	for at, ip := range now.Reached {
		if last.Reached[at] != ip {
			stale.Named[at] = true
		}
	}
	for at := range last.Reached {
		if !now.Reached[at].IsValid() {
			stale.Named[at] = true
		}
	}
	stale.Exposed = stale.Exposed || now.Relays != last.Relays
	p.here = now
}

// resolve finds the Services that are stale.
func (p *Planner) resolve(tx store.ReadTx, cfg Config, stale *Stale) map[Ref]bool {
	refs := stale.Refs
	for vpc := range stale.VPCs {
		for ref := range p.members[vpc] {
			refs[ref] = true
		}
		for part := range scaled.ByDomain(tx, vpc) {
			refs[Ref{part.Namespace, part.Service}] = true
		}
		if row := store.GetVPC(tx, vpc); row != nil {
			for _, service := range services.Services(tx, row, cfg.DefaultVPC) {
				refs[RefOf(service)] = true
			}
		}
		if store.IsNetworkDomain(vpc) {
			for _, slice := range store.EndpointSlicesByDomain(tx, vpc) {
				refs[Ref{slice.Namespace, slice.Service}] = true
			}
		}
	}
	for ip := range stale.Anywhere {
		for vpc := range p.members {
			stale.Named[VPCAddress{vpc, ip}] = true
		}
	}
	for at := range stale.Named {
		for _, s := range p.naming[at] {
			refs[s.ref] = true
		}
	}
	if stale.All || stale.Exposed || stale.Wide {
		p.resolveGeneral(tx, stale)
	}
	return refs
}

// resolveGeneral finds the Services that are stale by their properties.
func (p *Planner) resolveGeneral(tx store.ReadTx, stale *Stale) {
	for ref, s := range p.planned {
		if stale.All || stale.Exposed && s.exposed || stale.Wide && s.wide {
			stale.Refs[ref] = true
		}
	}
	if stale.All {
		for _, service := range store.ListServices(tx) {
			stale.Refs[RefOf(service)] = true
		}
		for part := range scaled.All(tx) {
			stale.Refs[Ref{part.Namespace, part.Service}] = true
		}
	}
}

// replace replaces the plan of a Service. The plan before and the plan after may be nil.
func (p *Planner) replace(ref Ref, now *servicePlan) {
	last := p.planned[ref]
	if last == now || last != nil && now != nil && reflect.DeepEqual(last, now) {
		return
	}
	if last != nil {
		delete(p.planned, ref)
		p.index(last, -1)
	}
	if now != nil {
		p.planned[ref] = now
		p.index(now, 1)
	}
}

// join adds a Service to the members of its VPC or network (n = 1), or removes it (-1).
func (p *Planner) join(s *servicePlan, n int) {
	if n < 0 {
		delete(p.members[s.vpc], s.ref)
		return
	}
	if p.members[s.vpc] == nil {
		p.members[s.vpc] = map[Ref]*servicePlan{}
	}
	p.members[s.vpc][s.ref] = s
}

// index adds a Service to all indexes (n = 1), or removes it (-1).
func (p *Planner) index(s *servicePlan, n int) {
	p.join(s, n)
	for _, outside := range s.outside {
		p.index(outside, n)
	}
	for _, ip := range s.named {
		put(p.naming, VPCAddress{s.vpc, ip}, s, n)
	}
	switch {
	case s.shared:
		p.shared.put(s, n)
	case s.inside:
		if p.vpcs[s.vpc] == nil {
			p.vpcs[s.vpc] = newVirtualAddresses()
			p.vpcs[s.vpc].limited = true
		}
		p.vpcs[s.vpc].put(s, n)
	}
	if s.exposed {
		p.frontends.put(s, n)
		p.health.put(s, n)
		if p.exposures[s.vpc] == nil {
			p.exposures[s.vpc] = &Exposure{ports: map[state.NodePort]int{}}
		}
		p.exposures[s.vpc].put(s, n)
	}
}

// put adds a Service to the list of a key (n = 1), or removes it (-1).
func put[K comparable](index map[K][]*servicePlan, key K, s *servicePlan, n int) {
	if n > 0 {
		index[key] = append(index[key], s)
		return
	}
	index[key] = slices.DeleteFunc(index[key], func(other *servicePlan) bool { return other == s })
	if len(index[key]) == 0 {
		delete(index, key)
	}
}

// settle updates the virtual addresses, frontends, health checks and exposures, and reports
// whether any changed.
func (p *Planner) settle() (changed bool) {
	for name, v := range p.vpcs {
		changed = v.settle(p.here.Numbers[name]) || changed
		if len(v.byAge) == 0 {
			delete(p.vpcs, name)
		}
	}
	changed = p.shared.settle(0) || changed
	changed = p.frontends.settle() || changed
	changed = p.health.settle() || changed
	for _, e := range p.exposures {
		changed = e.settle() || changed
	}
	return changed
}

// ByVNI returns the virtual addresses of VPCs, and of networks outside by their numbers.
func (p *Planner) ByVNI() map[uint32]state.VirtualAddresses {
	all := map[uint32]state.VirtualAddresses{}
	for name, v := range p.vpcs {
		if !v.list.Empty() {
			all[p.here.Numbers[name]] = v.list
		}
	}
	return all
}

// Shared returns the services that every VPC reaches.
func (p *Planner) Shared() (list []state.Service) {
	for a := range p.shared.list.All() {
		list = append(list, a.Services...)
	}
	return list
}

// Frontends returns the frontends of all Services, sorted.
func (p *Planner) Frontends() []*ruleset.Frontend { return p.frontends.list }

// HealthChecks returns the health checks of all Services, by age of the Service.
func (p *Planner) HealthChecks() []HealthCheck { return p.health.list }

// Exposure returns the exposure of a VPC, or nil before clients outside reach one of its Services.
func (p *Planner) Exposure(vpc string) *Exposure { return p.exposures[vpc] }

// inOrder inserts into a list that is sorted by age (n = 1), or removes (-1).
func inOrder(list []*servicePlan, s *servicePlan, n int) []*servicePlan {
	at, found := slices.BinarySearchFunc(list, s, byAge)
	switch {
	case n > 0:
		return slices.Insert(list, at, s)
	case found:
		return slices.Delete(list, at, at+1)
	}
	return list
}
