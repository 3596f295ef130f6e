// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/store"
)

// Planner plans one node again and again. It keeps what it has planned, and plans
// anew only the VPCs of which a row or a record has changed: what it returns is the
// same as that of Build, part by part, and of a part that is the same the pointer
// is. The zero value has planned nothing yet. Its method must not be called at the
// same time.
type Planner struct {
	// in and revision are what the last plan was made of.
	in       Input
	revision uint64
	// attached are the records that a plan goes by, by VPC.
	attached map[string][]journal.Record
	// idle are the others.
	idle   []journal.Record
	vpcs   map[string]*vpcPlan
	scaled scaledPlan
	node   *nodePlan
	want   Wanted
}

// Plan computes what the node has to hold. The result must not be changed.
func (p *Planner) Plan(tx store.ReadTx, in Input) Wanted {
	stale := p.compare(tx, in)
	p.in, p.revision = in, tx.Revision()
	changed := p.planVPCs(tx, &stale)
	changed = p.scaled.planServices(tx, in, p.vpcs, &stale) || changed
	if p.node == nil || stale.node {
		changed = p.planNode(tx) || changed
	}
	changed = p.frontend() || changed
	if changed {
		p.want = Wanted{
			Datapath: parts(p.node.part, p.vpcs, p.scaled.services()),
			Devices:  p.node.devices, Filter: p.node.filter, Health: p.node.health, ClosedPorts: p.node.closed, Lost: p.node.lost,
		}
	}
	return p.want
}

// planVPCs plans the VPCs that are stale, and reports whether one is another then.
// What they have here makes the node's own plan stale.
func (p *Planner) planVPCs(tx store.ReadTx, stale *stale) (changed bool) {
	if p.vpcs == nil {
		p.vpcs = map[string]*vpcPlan{}
	}
	for name := range stale.vpcs {
		last, known := p.vpcs[name]
		if p.attached[name] == nil && name != p.in.DefaultVPC {
			delete(p.vpcs, name)
			changed, stale.node = changed || known, stale.node || known
			continue
		}
		now := planVPC(tx, p.in, name, p.attached[name])
		if known {
			now.keep(last)
		}
		changed = changed || !known || now.part != last.part
		stale.node = stale.node || !known || !reflect.DeepEqual(last.here, now.here)
		p.vpcs[name] = now
	}
	return changed
}

// keep takes from the last plan of the VPC what is planned with the node, and the part
// itself where it is the same.
func (v *vpcPlan) keep(last *vpcPlan) {
	if last.part != nil && v.part != nil {
		v.part.VPCs[0].Fronted, v.part.NodePorts = last.part.VPCs[0].Fronted, last.part.NodePorts
	}
	if reflect.DeepEqual(last.part, v.part) {
		v.part = last.part
	}
}

// frontend says in the parts of VPCs how their Services are reached from outside, and
// whether one of these is another then.
func (p *Planner) frontend() (changed bool) {
	for name, v := range p.vpcs {
		known := p.node.border[name]
		if v.part == nil || v.part.VPCs[0].Fronted == known.fronted && slices.Equal(v.part.NodePorts, known.ports) {
			continue
		}
		now, part := *v, *v.part
		part.VPCs = slices.Clone(part.VPCs)
		part.VPCs[0].Fronted, part.NodePorts = known.fronted, known.ports
		now.part, changed = &part, true
		p.vpcs[name] = &now
	}
	return changed
}

// planNode plans the rest of the node, and reports whether it is another then.
func (p *Planner) planNode(tx store.ReadTx) (changed bool) {
	last := p.node
	p.node = planNode(tx, p.in, p.vpcs)
	if last == nil {
		return true
	}
	if reflect.DeepEqual(last, p.node) {
		p.node = last
		return false
	}
	if reflect.DeepEqual(last.part, p.node.part) {
		p.node.part = last.part
	}
	return true
}

// stale is what has to be planned anew.
type stale struct {
	vpcs map[string]bool
	// node is what belongs to no VPC alone.
	node bool
	// parts are those of all VPCs, without their Services.
	parts bool
	// services, and those of VPCs: refill are all that there are, members may have
	// come or left, and held are addresses that slices may name.
	services        map[ServiceRef]bool
	refill, members map[string]bool
	held            map[heldAddress]bool
	// borders says that nodes, what belongs to the cluster, or whose namespaces are may
	// be others.
	borders bool
	// shared are the Services that every VPC reaches.
	shared []ServiceRef
}

// heldAddress is an address of a VPC.
type heldAddress struct {
	vpc string
	ip  netip.Addr
}

// compare finds what the last plan says no longer.
func (p *Planner) compare(tx store.ReadTx, in Input) stale {
	s := stale{
		vpcs: map[string]bool{}, services: map[ServiceRef]bool{}, refill: map[string]bool{}, members: map[string]bool{},
		held: map[heldAddress]bool{}, shared: SharedServices(tx, in.Config),
	}
	if !sameList(p.in.Records, in.Records) || !maps.Equal(p.in.Devices, in.Devices) {
		last, idle := p.attached, p.idle
		p.attached, p.idle = in.attached(), in.idle()
		s.records(last, p.attached)
		s.node = !reflect.DeepEqual(idle, p.idle)
	}
	s.node = s.node || !reflect.DeepEqual(p.in.Departed, in.Departed)
	changes, ok := store.ChangesSince(tx, p.revision)
	if p.node == nil || !ok || p.in.NodePeer != in.NodePeer || !reflect.DeepEqual(p.in.Config, in.Config) {
		s.allParts(p, in)
		maps.Copy(s.refill, s.vpcs)
		return s
	}
	moved := false
	for _, c := range changes {
		for _, row := range []any{c.Old, c.New} {
			s.row(tx, row, in)
			s.outside(tx, row, in)
			s.ports(row)
			s.border(row, in)
		}
		moved = moved || zoneOf(c.Old, in.Node) != zoneOf(c.New, in.Node)
	}
	if s.parts {
		s.allParts(p, in)
	}
	if moved { // other backends are near
		maps.Copy(s.refill, s.vpcs)
	}
	return s
}

// zoneOf returns the zone of a node if the row is that node's, and otherwise none.
func zoneOf(row any, node string) string {
	if row, ok := row.(*store.Node); ok && row.Name == node {
		return row.Zone
	}
	return ""
}

// sameList reports whether two slices are one.
func sameList[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// records marks the VPCs in which others are attached.
func (s *stale) records(last, now map[string][]journal.Record) {
	for name := range last {
		s.vpcs[name] = s.vpcs[name] || now[name] == nil
	}
	for name, list := range now {
		s.vpcs[name] = s.vpcs[name] || !reflect.DeepEqual(last[name], list)
	}
	maps.DeleteFunc(s.vpcs, func(_ string, stale bool) bool { return !stale })
}

func (s *stale) allParts(p *Planner, in Input) {
	s.node = true
	s.vpcs[p.in.DefaultVPC], s.vpcs[in.DefaultVPC] = true, true
	for name := range p.attached {
		s.vpcs[name] = true
	}
}

// ports marks what leads from ports of the node to pods, if it goes by a row.
func (s *stale) ports(row any) {
	switch row := row.(type) {
	case *store.HostAccess, *store.Namespace: // whose tenant may have which
		s.node = true
	case *store.Service: // which has its own
		s.node = s.node || hasNodePorts(row)
	}
}

// row marks what a row is a part of. This, outside, ports and border are the places
// that know of which rows which plan is made.
func (s *stale) row(tx store.ReadTx, row any, in Input) {
	switch row := row.(type) {
	case nil:
	case *store.VPC:
		s.vpcs[row.Name], s.refill[row.Name] = true, true
		s.node = s.node || row.Name == in.DefaultVPC
	case *store.Subnet:
		s.vpcs[row.VPC] = true
	case *store.Address:
		s.vpcs[row.VPC] = true
		s.held[heldAddress{row.VPC, row.IP}] = true
		if row.Holder.Kind == store.HolderService { // whose virtual address it is
			s.services[ServiceRef{row.Holder.Namespace, row.Holder.Name}] = true
		}
	case *store.Pod:
		s.pod(tx, row, in)
	case *store.ServiceCIDR:
		s.node = true
	case *store.Service:
		s.service(ServiceRef{row.Namespace, row.Name})
	case *store.SharedService:
		s.node = true
		s.services[ServiceRef{row.ServiceNamespace, row.ServiceName}] = true
	case *store.EndpointSlice:
		s.slice(ServiceRef{row.Namespace, row.Service}, in)
	case *store.Namespace:
		s.tenant(tx, row.Tenant, in)
	case *store.Network:
		s.members[row.VPC] = true
		s.tenant(tx, row.Tenant, in)
	case *store.RollCall, *store.ExternalPool, *store.ExternalAddress, *store.HostAccess, *store.HostPod: // see outside and ports
	default: // a Node, to which any address may lead
		s.parts = true
	}
}

// pod marks the VPCs of which addresses name a pod that is another now: whether they
// count, and whether missing ones are kept for it, follows from the pod.
func (s *stale) pod(tx store.ReadTx, row *store.Pod, in Input) {
	s.node = true
	now := store.GetPod(tx, row.UID)
	for _, rec := range in.Records {
		if rec.Pod.UID == row.UID && slices.ContainsFunc(rec.Addrs, func(prefix netip.Prefix) bool {
			return store.AddressByIP(tx, rec.VPC, prefix.Addr()) == nil
		}) {
			s.vpcs[rec.VPC] = true
		}
	}
	for _, address := range store.AddressesNaming(tx, row.UID) {
		if now == nil || !now.Holds(address) {
			s.vpcs[address.VPC] = true
		}
	}
}

// slice marks the Service of a slice. The API server's endpoints are reserved.
func (s *stale) slice(service ServiceRef, in Input) {
	s.service(service)
	if service == in.APIServer {
		s.vpcs[in.DefaultVPC], s.node = true, true
	}
}

// service marks a Service. What is shared with every VPC belongs to none alone.
func (s *stale) service(ref ServiceRef) {
	s.services[ref] = true
	s.node = s.node || slices.Contains(s.shared, ref)
}

// tenant marks the VPCs to which what a tenant has may belong.
func (s *stale) tenant(tx store.ReadTx, tenant string, in Input) {
	s.members[in.DefaultVPC] = true
	for _, net := range store.NetworksByTenant(tx, tenant) {
		s.members[net.VPC] = true
	}
}

// attached are the records to be programmed, unless they are lost, by VPC and the
// oldest first.
func (in Input) attached() map[string][]journal.Record {
	found := map[string][]journal.Record{}
	for _, rec := range in.Records {
		if in.isAttached(rec) {
			found[rec.VPC] = append(found[rec.VPC], rec)
		}
	}
	for _, list := range found {
		slices.SortFunc(list, func(a, b journal.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return found
}

func (in Input) isAttached(rec journal.Record) bool {
	index, ok := in.Devices[rec.HostIfName]
	return ok && in.Kinds[rec.Kind].Datapath() && rec.Phase == journal.PhaseDone && index == rec.Device.HostIfindex
}

// idle are the records that are not to be programmed.
func (in Input) idle() []journal.Record {
	return slices.DeleteFunc(slices.Clone(in.Records), in.isAttached)
}
