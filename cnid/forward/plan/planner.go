// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// Planner plans one node again and again. It keeps the parts of its plan, and plans a part
// again if a row or a record changes that the part depends on. The result is equal to the
// result of Build, part by part, and an unchanged part keeps its pointer. The zero value has
// planned nothing yet. Its method must not be called at the same time.
type Planner struct {
	// in and revision hold the inputs of the last plan.
	in       Input
	revision uint64
	// attached are the records that a plan goes by, by VPC.
	attached map[string][]journal.Record
	vpcs     map[string]*vpcPlan
	domains  domains
	services serviceplan.Planner
	// owners has the tenants of the external addresses that changed Services have named, ""
	// for nobody: see comparison.service.
	owners map[netip.Addr]string
	node   *nodePlan
	want   Wanted
}

// Plan computes what the node has to hold. The result must not be changed.
func (p *Planner) Plan(tx store.ReadTx, in Input) Wanted {
	first := p.node == nil
	stale := p.compare(tx, in)
	p.in, p.revision = in, tx.Revision()
	changed := p.planVPCs(tx, stale)
	stale.services.Here = stale.node
	p.planDomains(tx, stale)
	changed = p.planServices(tx, &stale.services) || changed
	changed = p.planNode(tx, stale) || changed
	if changed || first {
		p.want = p.join()
	}
	return p.want
}

// planVPCs plans the VPCs that are stale, and reports whether one changed. A change makes
// all of the node's own parts stale.
func (p *Planner) planVPCs(tx store.ReadTx, stale *stale) (changed bool) {
	if p.vpcs == nil {
		p.vpcs = map[string]*vpcPlan{}
	}
	for name := range stale.vpcs {
		last, known := p.vpcs[name]
		if p.attached[name] == nil && name != p.in.DefaultVPC && !hasRole(tx, p.in.Node, name) {
			delete(p.vpcs, name)
			changed, stale.node = changed || known, stale.node || known
			continue
		}
		now := planVPC(tx, p.in, name, p.attached[name])
		p.vpcs[name] = now
		if !known {
			changed, stale.node = true, true
			continue
		}
		if reflect.DeepEqual(last.part, now.part) {
			now.part, now.joint = last.part, last.joint
		}
		elsewhere := !reflect.DeepEqual(last.here, now.here) // the node's parts depend on it
		changed = changed || elsewhere || now.part != last.part
		stale.node = stale.node || elsewhere || (last.part == nil) != (now.part == nil)
	}
	return changed
}

// planDomains finds the networks outside of every VPC that are here, if that is stale. A
// change makes what depends on them stale.
func (p *Planner) planDomains(tx store.ReadTx, stale *stale) {
	if !stale.domains && p.domains.numbers != nil {
		return
	}
	now := domainsHere(tx, p.in)
	if reflect.DeepEqual(p.domains, now) {
		return
	}
	p.domains = now
	stale.parts[namespacesPart], stale.services.Here = true, true
}

// planServices plans the stale Services, and reports whether any changed.
func (p *Planner) planServices(tx store.ReadTx, stale *serviceplan.Stale) (changed bool) {
	var now *serviceplan.Here
	if stale.NeedsHere() {
		now = p.hereForServices(tx)
	}
	return p.services.Plan(tx, p.in.forServices(), now, stale)
}

// planNode plans the stale parts of the node itself, and reports whether one changed.
func (p *Planner) planNode(tx store.ReadTx, stale *stale) (changed bool) {
	last := p.node
	if last != nil && !stale.node && len(stale.parts) == 0 {
		return false
	}
	b := newNodeBuilder(tx, p.in, p.vpcs, p.domains, last)
	for _, part := range nodeParts {
		if last == nil || stale.node || stale.parts[part.name] {
			part.plan(b)
		}
	}
	now := b.result()
	if last == nil {
		p.node = now
		return true
	}
	if reflect.DeepEqual(last, now) {
		return false
	}
	if reflect.DeepEqual(last.part, now.part) {
		now.part = last.part
	}
	p.node = now
	return true
}

// join puts the parts together. What Services have to do with a VPC's own part, and with
// the node's, comes to it here; a part that is the same stays.
func (p *Planner) join() Wanted {
	want := Wanted{
		Devices: p.node.devices, Filter: p.node.filter, Health: p.services.HealthChecks(), ClosedPorts: p.node.closed,
		Lost:  p.node.lost,
		Roles: Roles{Listed: map[string]int64{}, Complete: map[string]bool{}},
	}
	want.Filter.Frontends = p.services.Frontends()
	want.Datapath.Services = p.services.ByVNI()
	want.Datapath.VPCs = make(map[uint32]*state.State, len(p.vpcs)+1)
	want.Datapath.VPCs[0] = p.joined(0, p.node.part, func(part *state.State) {
		part.Services = p.services.Shared()
	})
	for name, v := range p.vpcs {
		if v.here.listed > 0 {
			want.Roles.Listed[v.here.uid] = v.here.listed
		}
		for _, member := range v.here.complete {
			want.Roles.Complete[member] = true
		}
		if v.part != nil {
			want.Datapath.VPCs[v.here.vni] = p.joinedVPC(v, p.services.Exposure(name))
		}
	}
	return want
}

// joint is a VPC's part with what Services add to it, beside what it was made of.
type joint struct {
	part      *state.State
	exposed   bool
	preserves bool
	ports     []state.NodePort
	whole     *state.State
}

// joinedVPC adds the fields of Services to a VPC's part. Most VPCs of a node have not changed
// since the last plan, so a result of the same input is not compared.
func (p *Planner) joinedVPC(v *vpcPlan, e *serviceplan.Exposure) *state.State {
	now := joint{part: v.part, exposed: e != nil}
	if e != nil {
		now.preserves, now.ports = e.Preserves, e.Ports
	}
	last := v.joint
	if last.part == now.part && last.exposed == now.exposed && last.preserves == now.preserves &&
		sameList(last.ports, now.ports) {
		return last.whole
	}
	now.whole = p.joined(v.here.vni, v.part, func(part *state.State) {
		if e != nil {
			part.VPCs = slices.Clone(part.VPCs)
			part.VPCs[0].Fronted, part.NodePorts = now.preserves, now.ports
		}
	})
	v.joint = now
	return now.whole
}

// joined is a part with what Services add to it.
func (p *Planner) joined(vni uint32, part *state.State, add func(*state.State)) *state.State {
	now := *part
	add(&now)
	if last := p.want.Datapath.VPCs[vni]; last != nil && reflect.DeepEqual(last, &now) {
		return last
	}
	return &now
}

// stale lists the parts that have to be planned anew.
type stale struct {
	// vpcs are names of VPCs.
	vpcs map[string]bool
	// domains reports that networks outside of every VPC may have come or gone.
	domains bool
	// node reports that all parts are stale that belong to no VPC alone, parts are the
	// names of those that are.
	node     bool
	parts    map[string]bool
	services serviceplan.Stale
}

func newStale() *stale {
	return &stale{vpcs: map[string]bool{}, parts: map[string]bool{}, services: serviceplan.NewStale()}
}

// compare finds the stale parts of the last plan: by the journal, by the configuration, and by
// the declared dependencies on changed rows.
func (p *Planner) compare(tx store.ReadTx, in Input) *stale {
	s := newStale()
	s.vpcs = p.in.Tables.Changed(in.Tables)
	if !sameList(p.in.Records, in.Records) || !maps.Equal(p.in.Devices, in.Devices) {
		last := p.attached
		p.attached = in.attached()
		s.records(last, p.attached)
		s.parts[probesPart], s.domains = true, true
	}
	if !reflect.DeepEqual(p.in.Removed, in.Removed) {
		s.parts[probesPart] = true
	}
	changes, ok := store.ChangesSince(tx, p.revision)
	if p.node == nil || !ok || (p.in.Tables == nil) != (in.Tables == nil) || p.in.NodePeer != in.NodePeer ||
		!reflect.DeepEqual(p.in.Config, in.Config) {
		s.vpcs[p.in.DefaultVPC], s.domains, s.node, s.services.All = true, true, true, true
		s.vpcsOf(p.here(tx, in))
		p.owners = map[netip.Addr]string{}
		return s
	}
	c := &comparison{stale: s, tx: tx, in: in, here: p.here(tx, in), owners: p.owners}
	for _, change := range changes {
		if isStatusOfNode(change) {
			continue
		}
		for _, row := range []any{change.Old, change.New} {
			c.row(row)
		}
		if zoneOf(change.Old, in.Node) != zoneOf(change.New, in.Node) { // other backends are preferred
			s.services.All = true
		}
	}
	return s
}

// isStatusOfNode reports whether a change is of a node, and of nothing that a plan goes by. All
// nodes see the changes of each, and a kubelet may change its Node at any time.
func isStatusOfNode(change store.Change) bool {
	old, _ := change.Old.(*store.Node)
	now, _ := change.New.(*store.Node)
	return old != nil && now != nil && reflect.DeepEqual(withoutStatus(old), withoutStatus(now))
}

// withoutStatus is a node without what no plan goes by.
func withoutStatus(row *store.Node) store.Node {
	node := *row
	node.ResourceVersion, node.Pods, node.IgnoredAddresses, node.Selection, node.Pools = "", 0, 0, 0, nil
	node.Ready, node.OutOfService, node.NoBalancers = false, false, false
	node.NodeIPAM, node.RoleLabel, node.Leaving = false, false, false
	return node
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

// records marks the VPCs whose attached records have changed.
func (s *stale) records(last, now map[string][]journal.Record) {
	for name := range last {
		if now[name] == nil {
			s.vpcs[name] = true
		}
	}
	for name, list := range now {
		if !reflect.DeepEqual(last[name], list) {
			s.vpcs[name] = true
		}
	}
}

// here are the names of the VPCs that have been planned, or that are to be.
func (p *Planner) here(tx store.ReadTx, in Input) map[string]bool {
	names := map[string]bool{in.DefaultVPC: true}
	for name := range p.attached {
		names[name] = true
	}
	for name := range p.vpcs {
		names[name] = true
	}
	for _, m := range roles.MembersByNode(tx, in.Node) {
		names[m.VPC] = true
	}
	return names
}

// hasRole reports whether a node is a role member of a VPC.
func hasRole(tx store.ReadTx, node, vpc string) bool {
	return slices.ContainsFunc(
		roles.MembersByNode(tx, node),
		func(m *roles.Member) bool { return m.VPC == vpc && roles.IsOn(tx, m, node) },
	)
}

// vpcsOf marks VPCs.
func (s *stale) vpcsOf(names map[string]bool) { maps.Copy(s.vpcs, names) }

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
	return ok && in.Kinds[rec.Kind].Datapath() && rec.InVPC() && rec.Phase == journal.PhaseDone &&
		index == rec.Device.HostIfindex
}
