// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/scaled"
)

// scaledPlan is what a node has to hold of the Services of VPCs. There may be
// thousands, of which one or another changes all the time: each is planned by
// itself, and so is each virtual address, because Services can share one.
type scaledPlan struct {
	// vpcs that are present here, by name.
	vpcs map[string]*scaledVPC
	// where each Service is planned: the name of its VPC.
	where map[ServiceRef]string
}

// scaledVPC has the Services of one VPC.
type scaledVPC struct {
	name    string
	vni     uint32
	members map[ServiceRef]*member
	// byAge are the members, the oldest first, and room what they take together.
	byAge []*member
	room  scaled.Room
	// beyond are those for which there is no room.
	beyond map[*member]bool
	// naming are the Services whose slices name an address, and having those that
	// have a virtual one.
	naming, having map[netip.Addr][]*member
	// stale says that members have been replaced; changed are the virtual addresses
	// that have to be put together anew.
	stale   bool
	changed map[netip.Addr]bool
	// list is never changed: another one takes its place.
	list []*datapath.VirtualAddress
}

// member is a Service of a VPC. It is never changed: another one takes its place.
type member struct {
	ref ServiceRef
	// row has what orders Services by age, and nothing else.
	row      store.Service
	services []datapath.Service
	room     scaled.Room
	named    []netip.Addr
	// wide says that it goes by nodes, ranges and tenants too: see scaled.IsWide.
	wide bool
}

// vips are the member's virtual addresses, each once.
func (m *member) vips() []netip.Addr {
	var list []netip.Addr
	for _, s := range m.services {
		if !slices.Contains(list, s.VIP) {
			list = append(list, s.VIP)
		}
	}
	return list
}

// planServices plans the Services that are stale, and reports whether any virtual
// address is another then. present are the VPCs that are here, as planned last.
func (p *scaledPlan) planServices(tx store.ReadTx, in Input, present map[string]*vpcPlan, s *stale) (changed bool) {
	if p.vpcs == nil {
		p.vpcs, p.where = map[string]*scaledVPC{}, map[ServiceRef]string{}
	}
	b := &serviceBuilder{tx: tx, in: in, plan: p, shared: s.shared, stale: map[ServiceRef]bool{}}
	for name := range s.vpcs {
		changed = b.come(name, present[name], s.refill[name]) || changed
	}
	for name := range s.members {
		if v := p.vpcs[name]; v != nil {
			b.enumerate(v)
		}
	}
	for held := range s.held {
		b.naming(held)
	}
	if s.borders {
		b.wide()
	}
	maps.Copy(b.stale, s.services)
	for ref := range b.stale {
		b.service(ref)
	}
	for _, v := range p.vpcs {
		changed = v.settle() || changed
	}
	return changed
}

// serviceBuilder plans Services from one snapshot.
type serviceBuilder struct {
	tx     store.ReadTx
	in     Input
	plan   *scaledPlan
	shared []ServiceRef
	// stale are the Services to be planned.
	stale map[ServiceRef]bool
}

// come makes what is planned of a VPC's Services begin or end with the VPC's
// presence, and reports whether it has ended. refill says that none of it counts any
// more, although what comes out the same stays.
func (b *serviceBuilder) come(name string, now *vpcPlan, refill bool) (gone bool) {
	v := b.plan.vpcs[name]
	if now == nil || now.part == nil {
		if v == nil {
			return false
		}
		for ref := range v.members {
			delete(b.plan.where, ref)
		}
		delete(b.plan.vpcs, name)
		return len(v.list) > 0
	}
	switch {
	case v == nil:
		v = &scaledVPC{
			name: name, members: map[ServiceRef]*member{}, naming: map[netip.Addr][]*member{}, having: map[netip.Addr][]*member{},
			changed: map[netip.Addr]bool{},
		}
		b.plan.vpcs[name] = v
	case !refill && v.vni == now.here.vni:
		return false
	}
	v.vni = now.here.vni
	for ref := range v.members {
		b.stale[ref] = true
	}
	b.enumerate(v)
	return false
}

// enumerate makes stale what has come to a VPC or left it.
func (b *serviceBuilder) enumerate(v *scaledVPC) {
	found := map[ServiceRef]bool{}
	if row := store.GetVPC(b.tx, v.name); row != nil {
		for _, service := range scaled.Services(b.tx, row, b.in.DefaultVPC) {
			ref := ServiceRef{service.Namespace, service.Name}
			found[ref] = true
			if v.members[ref] == nil {
				b.stale[ref] = true
			}
		}
	}
	for ref := range v.members {
		if !found[ref] {
			b.stale[ref] = true
		}
	}
}

// naming makes the Services stale whose slices name an address.
func (b *serviceBuilder) naming(held heldAddress) {
	if v := b.plan.vpcs[held.vpc]; v != nil {
		for _, m := range v.naming[held.ip] {
			b.stale[m.ref] = true
		}
	}
}

// border marks what Services go by that lead outside of their VPC or have no selector,
// if it goes by a row.
func (s *stale) border(row any, in Input) {
	switch row := row.(type) {
	case *store.Node, *store.ServiceCIDR, *store.ExternalAddress, *store.Namespace:
		s.borders = true
	case *store.VPC:
		s.borders = s.borders || row.Name == in.DefaultVPC
	}
}

// wide makes the Services stale that go by more than is held.
func (b *serviceBuilder) wide() {
	for _, v := range b.plan.vpcs {
		for ref, m := range v.members {
			b.stale[ref] = b.stale[ref] || m.wide
		}
	}
	maps.DeleteFunc(b.stale, func(_ ServiceRef, stale bool) bool { return !stale })
}

// service plans one Service.
func (b *serviceBuilder) service(ref ServiceRef) {
	row := store.GetService(b.tx, ref.Namespace, ref.Name)
	vpc := b.home(row)
	if last, planned := b.plan.where[ref]; planned && last != vpc {
		b.plan.vpcs[last].replace(ref, nil)
		delete(b.plan.where, ref)
	}
	v := b.plan.vpcs[vpc]
	if v == nil {
		return
	}
	b.plan.where[ref] = vpc
	v.replace(ref, b.member(row, v))
}

// home returns the name of the VPC of a Service, "" where there is none. What is
// shared with every VPC is reached in its own way from its own one too.
func (b *serviceBuilder) home(row *store.Service) string {
	if row == nil || row.Network == "" && slices.Contains(b.shared, ServiceRef{row.Namespace, row.Name}) {
		return ""
	}
	return scaled.VPCOf(b.tx, row, b.in.DefaultVPC)
}

func (b *serviceBuilder) member(row *store.Service, v *scaledVPC) *member {
	named := scaled.Named(b.tx, row)
	return &member{
		ref:      ServiceRef{row.Namespace, row.Name},
		row:      store.Service{Meta: store.Meta{UID: row.UID, Created: row.Created}, Namespace: row.Namespace, Name: row.Name},
		services: b.endpoints(row, v), room: scaled.RoomFor(b.tx, v.name, row), named: named,
		wide: scaled.IsWide(b.tx, v.name, row, named),
	}
}

// endpoints are the virtual addresses and ports of a Service of a VPC.
func (b *serviceBuilder) endpoints(row *store.Service, v *scaledVPC) []datapath.Service {
	var list []datapath.Service
	at := scaled.Site{VPC: v.name, DefaultVPC: b.in.DefaultVPC, Node: b.in.Node}
	for _, vip := range scaled.VIPs(b.tx, v.name, row) {
		for _, port := range row.Ports {
			proto := protocol(port.Protocol)
			if proto == 0 {
				continue
			}
			service := datapath.Service{VNI: v.vni, VIP: vip, Port: port.Port, Proto: proto, Affinity: row.Affinity}
			for _, backend := range scaled.Backends(b.tx, at, row, port, vip.Is4()) {
				service.Backends = append(service.Backends, datapath.Backend{IP: backend.Addr(), Port: backend.Port(), Outside: backend.Outside})
			}
			list = append(list, service)
		}
	}
	return list
}

// replace puts a member in the place of the one of that name; either may be nil.
func (v *scaledVPC) replace(ref ServiceRef, now *member) {
	v.stale = true
	if last := v.members[ref]; last != nil {
		delete(v.members, ref)
		at, _ := slices.BinarySearchFunc(v.byAge, last, byAge)
		v.byAge = slices.Delete(v.byAge, at, at+1)
		v.room = v.room.Minus(last.room)
		v.index(last, without)
	}
	if now != nil {
		v.members[ref] = now
		at, _ := slices.BinarySearchFunc(v.byAge, now, byAge)
		v.byAge = slices.Insert(v.byAge, at, now)
		v.room = v.room.Plus(now.room)
		v.index(now, with)
	}
}

func byAge(a, b *member) int { return scaled.Age(&a.row, &b.row) }

// index changes what is known by address of a member.
func (v *scaledVPC) index(m *member, change func([]*member, *member) []*member) {
	put := func(in map[netip.Addr][]*member, ip netip.Addr) {
		if in[ip] = change(in[ip], m); len(in[ip]) == 0 {
			delete(in, ip)
		}
	}
	for _, ip := range m.named {
		put(v.naming, ip)
	}
	for _, vip := range m.vips() {
		put(v.having, vip)
		v.changed[vip] = true
	}
}

func with(list []*member, m *member) []*member { return append(list, m) }

func without(list []*member, m *member) []*member {
	return slices.DeleteFunc(list, func(other *member) bool { return other == m })
}

// settle brings the list up to date, and reports whether it is another then.
func (v *scaledVPC) settle() (changed bool) {
	if !v.stale {
		return false
	}
	v.stale = false
	v.share()
	list := slices.Clone(v.list)
	for _, vip := range slices.SortedFunc(maps.Keys(v.changed), netip.Addr.Compare) {
		at, found := slices.BinarySearchFunc(list, vip, func(a *datapath.VirtualAddress, ip netip.Addr) int { return a.IP.Compare(ip) })
		now := v.assemble(vip)
		switch {
		case now == nil && !found, now != nil && found && reflect.DeepEqual(list[at], now):
			continue
		case now == nil:
			list = slices.Delete(list, at, at+1)
		case found:
			list[at] = now
		default:
			list = slices.Insert(list, at, now)
		}
		changed = true
	}
	clear(v.changed)
	if changed {
		v.list = list
	}
	return changed
}

// share finds the Services for which there is no room, the youngest. It takes a
// look at all only where there are any.
func (v *scaledVPC) share() {
	last := v.beyond
	v.beyond = nil
	if !scaled.RoomOfVPC.Holds(v.room) {
		fitting := scaled.Fitting(func(yield func(scaled.Room) bool) {
			for _, m := range v.byAge {
				if !yield(m.room) {
					return
				}
			}
		})
		v.beyond = map[*member]bool{}
		for _, m := range v.byAge[fitting:] {
			v.beyond[m] = true
		}
	}
	for _, both := range [][2]map[*member]bool{{last, v.beyond}, {v.beyond, last}} {
		for m := range both[0] {
			for _, vip := range m.vips() {
				v.changed[vip] = v.changed[vip] || !both[1][m]
			}
		}
	}
}

// assemble puts a virtual address together; nil: nobody has it. Where two Services
// have one and the same port of it, it is the older one's.
func (v *scaledVPC) assemble(vip netip.Addr) *datapath.VirtualAddress {
	a := &datapath.VirtualAddress{VNI: v.vni, IP: vip}
	for _, m := range slices.SortedFunc(slices.Values(v.having[vip]), byAge) {
		if v.beyond[m] {
			continue
		}
		for _, s := range m.services {
			if s.VIP == vip {
				a.Services = append(a.Services, s)
			}
		}
	}
	if len(a.Services) == 0 {
		return nil
	}
	a.Services = sortServices(a.Services)
	return a
}

// services are the virtual addresses of all VPCs, by VNI.
func (p *scaledPlan) services() map[uint32][]*datapath.VirtualAddress {
	all := map[uint32][]*datapath.VirtualAddress{}
	for _, v := range p.vpcs {
		if len(v.list) > 0 {
			all[v.vni] = v.list
		}
	}
	return all
}
