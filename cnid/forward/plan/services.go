// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

// servicesPlan is what a node has to hold of Services: inside of VPCs and of networks outside
// of every VPC, shared with all VPCs, and for clients outside. There may be thousands, of which one or another changes
// all the time. So each is planned by itself; virtual addresses and frontends, which two
// Services can claim, are put together of those that claim them.
type servicesPlan struct {
	planned map[ServiceRef]*servicePlan
	// members are those of a VPC by its name, or of a network outside by its domain.
	members map[string]map[ServiceRef]*servicePlan
	// naming are those whose slices name an address of their VPC or network.
	naming map[vpcAddress][]*servicePlan
	// present are the VNIs of the VPCs that are here by name, and the numbers of networks
	// outside by domain; places are what leads here from outside, as all of it was planned
	// last.
	present map[string]uint32
	places  places

	// vpcs are the virtual addresses of VPCs by name, and of networks outside by domain,
	// shared those of Services that every VPC reaches.
	vpcs      map[string]*virtualAddresses
	shared    *virtualAddresses
	frontends frontends
	health    healthChecks
	exposures map[string]*exposure
}

// vpcAddress is an address of a VPC, or of a network outside by its domain.
type vpcAddress struct {
	vpc string
	ip  netip.Addr
}

// servicePlan is what is planned of one Service. It is never changed: another one takes
// its place.
type servicePlan struct {
	ref ServiceRef
	// row has what orders Services by age, and nothing else.
	row store.Service
	// vpc is the name of the Service's VPC, or "". outside has a plan for each network
	// outside of every VPC in which the Service has backends, with its domain as vpc.
	vpc     string
	outside []*servicePlan
	// shared reports that services are for every VPC, inside that they are for the
	// Service's own.
	shared, inside bool
	services       []state.Service
	usage          services.Usage
	// named are the addresses that its slices name.
	named []netip.Addr
	// wide reports that it goes by nodes, ranges and tenants too: see services.IsWide.
	wide bool
	// exposed reports that clients outside reach it, by what follows.
	exposed   bool
	frontends []*ruleset.Frontend
	// preserves reports that its pods see the addresses of clients outside.
	preserves bool
	// ports of nodes that pods of its VPC may ask for.
	ports  []state.NodePort
	health *HealthCheck
}

func byAge(a, b *servicePlan) int { return services.Age(&a.row, &b.row) }

// staleServices are Services that have to be planned anew.
type staleServices struct {
	refs map[ServiceRef]bool
	// vpcs have all of their Services planned anew, and those that came to them.
	vpcs map[string]bool
	// named are addresses; slices of the Services name them. Those anywhere are named in any
	// VPC.
	named    map[vpcAddress]bool
	anywhere map[netip.Addr]bool
	// all are all that there are, exposed those that clients outside reach, and wide those
	// that go by more than is held.
	all, exposed, wide bool
	// here reports that what VPCs have on this node may have changed.
	here bool
}

// plan plans the Services that are stale, and reports whether anything changed. vpcs
// are planned already; numbers are those of the networks outside that are here, by domain.
func (p *servicesPlan) plan(tx store.ReadTx, in Input, vpcs map[string]*vpcPlan, numbers map[string]uint32, stale *staleServices) (changed bool) {
	if p.planned == nil {
		*p = servicesPlan{
			planned: map[ServiceRef]*servicePlan{}, members: map[string]map[ServiceRef]*servicePlan{}, naming: map[vpcAddress][]*servicePlan{},
			vpcs: map[string]*virtualAddresses{}, shared: newVirtualAddresses(), frontends: newFrontends(), exposures: map[string]*exposure{},
		}
	}
	if stale.here || stale.all || stale.wide { // wide: this node's addresses may have changed
		p.meet(presentOf(vpcs, numbers), stale)
		p.meetPlaces(tx, in, vpcs, stale)
	}
	p.build(newServiceBuilder(tx, in, p.present, p.places), p.resolve(tx, in, stale))
	return p.settle()
}

// build plans Services. The oldest come first, so that most lists by age grow at their end.
func (p *servicesPlan) build(b *serviceBuilder, refs map[ServiceRef]bool) {
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

// presentOf returns servicesPlan.present: the VPCs with an interface here, and networks. A
// node that only forwards packets of a VPC, as a role member, translates none of them.
func presentOf(vpcs map[string]*vpcPlan, numbers map[string]uint32) map[string]uint32 {
	present := maps.Clone(numbers)
	for name, v := range vpcs {
		if v.part != nil && len(v.part.Interfaces) > 0 {
			present[name] = v.here.vni
		}
	}
	return present
}

// meet notes which VPCs and networks are here, and makes stale what was planned with others.
func (p *servicesPlan) meet(present map[string]uint32, stale *staleServices) {
	for name, vni := range present {
		if p.present[name] != vni {
			stale.vpcs[name] = true
		}
	}
	for name := range p.present {
		if present[name] == 0 {
			stale.vpcs[name] = true
		}
	}
	p.present = present
}

// meetPlaces notes what leads here from outside, and makes stale what was planned with
// others.
func (p *servicesPlan) meetPlaces(tx store.ReadTx, in Input, vpcs map[string]*vpcPlan, stale *staleServices) {
	if !in.NodePorts {
		return
	}
	now := placesHere(tx, in, vpcs)
	stale.exposed = stale.exposed || now.relays != p.places.relays
	for at, place := range now.live {
		stale.named[at] = stale.named[at] || p.places.live[at] != place
	}
	for at := range p.places.live {
		stale.named[at] = stale.named[at] || !now.live[at].IsValid()
	}
	maps.DeleteFunc(stale.named, func(_ vpcAddress, stale bool) bool { return !stale })
	p.places = now
}

// resolve finds the Services that are stale.
func (p *servicesPlan) resolve(tx store.ReadTx, in Input, stale *staleServices) map[ServiceRef]bool {
	refs := stale.refs
	for vpc := range stale.vpcs {
		for ref := range p.members[vpc] {
			refs[ref] = true
		}
		for part := range scaled.ByDomain(tx, vpc) {
			refs[ServiceRef{part.Namespace, part.Service}] = true
		}
		if row := store.GetVPC(tx, vpc); row != nil {
			for _, service := range services.Services(tx, row, in.DefaultVPC) {
				refs[refOf(service)] = true
			}
		}
		if store.IsNetworkDomain(vpc) {
			for _, slice := range store.EndpointSlicesByDomain(tx, vpc) {
				refs[ServiceRef{slice.Namespace, slice.Service}] = true
			}
		}
	}
	for ip := range stale.anywhere {
		for vpc := range p.members {
			stale.named[vpcAddress{vpc, ip}] = true
		}
	}
	for at := range stale.named {
		for _, s := range p.naming[at] {
			refs[s.ref] = true
		}
	}
	if stale.all || stale.exposed || stale.wide {
		p.resolveGeneral(tx, stale)
	}
	return refs
}

// resolveGeneral finds those that are stale whatever they are called.
func (p *servicesPlan) resolveGeneral(tx store.ReadTx, stale *staleServices) {
	for ref, s := range p.planned {
		if stale.all || stale.exposed && s.exposed || stale.wide && s.wide {
			stale.refs[ref] = true
		}
	}
	if stale.all {
		for _, service := range store.ListServices(tx) {
			stale.refs[refOf(service)] = true
		}
		for part := range scaled.All(tx) {
			stale.refs[ServiceRef{part.Namespace, part.Service}] = true
		}
	}
}

func refOf(service *store.Service) ServiceRef { return ServiceRef{service.Namespace, service.Name} }

// replace puts what is planned of a Service in the place of what was; either may be nil.
func (p *servicesPlan) replace(ref ServiceRef, now *servicePlan) {
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

// join adds a Service to the members of its VPC or network (n = 1), or takes it out (-1).
func (p *servicesPlan) join(s *servicePlan, n int) {
	if n < 0 {
		delete(p.members[s.vpc], s.ref)
		return
	}
	if p.members[s.vpc] == nil {
		p.members[s.vpc] = map[ServiceRef]*servicePlan{}
	}
	p.members[s.vpc][s.ref] = s
}

// index adds a Service (n = 1), or takes it out (-1), wherever it is known by what it has.
func (p *servicesPlan) index(s *servicePlan, n int) {
	p.join(s, n)
	for _, outside := range s.outside {
		p.index(outside, n)
	}
	for _, ip := range s.named {
		put(p.naming, vpcAddress{s.vpc, ip}, s, n)
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
			p.exposures[s.vpc] = &exposure{ports: map[state.NodePort]int{}}
		}
		p.exposures[s.vpc].put(s, n)
	}
}

// put adds a Service to those of a key (n = 1), or takes it out (-1).
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

// settle brings what Services share up to date, and reports whether any of it changed.
func (p *servicesPlan) settle() (changed bool) {
	for name, v := range p.vpcs {
		changed = v.settle(p.present[name]) || changed
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

// byVNI are the virtual addresses of VPCs, and of networks outside by their numbers.
func (p *servicesPlan) byVNI() map[uint32]state.VirtualAddresses {
	all := map[uint32]state.VirtualAddresses{}
	for name, v := range p.vpcs {
		if !v.list.Empty() {
			all[p.present[name]] = v.list
		}
	}
	return all
}

// inOrder inserts into a list that is sorted by age (n = 1), or takes out (-1).
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
