// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package role

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/placement"
	"github.com/alioth-net/alioth/store/rows/roles"
)

const (
	// patience is how long a member that leaves waits for acknowledgements.
	patience = 60 * time.Second
	// grace is how long it stays afterwards, for packets on their way.
	grace = time.Second
)

// Decide plans the roles of a VPC. waits come from the plan before, nil at the start of an
// operator. Decide changes nothing of its input, and the order of lists has no meaning.
func Decide(w World, waits map[string]Wait, now time.Time) Plan {
	p := &planner{world: w, waits: waits, now: now, revision: w.VPC.Revision}
	p.out = Plan{Bouncers: map[string]Summary{}, Waits: map[string]Wait{}}
	for _, m := range w.Members {
		p.revision = max(p.revision, m.Revision)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Nodes)) {
		node := w.Nodes[name]
		if node.candidate() {
			p.candidates = append(p.candidates, placement.Candidate{Node: name, Zone: node.Zone})
		}
		if node.lacksRoles() && slices.Contains(w.Hosts, name) {
			p.old = append(p.old, name)
		}
	}
	p.all()
	p.out.Steps = slices.Concat(p.gone, p.serve, p.leave, p.create, p.remove)
	p.number()
	return p.out
}

// planner collects the steps of all roles of a VPC. A member serves before another one
// leaves, so that a process that is killed in between leaves one too many.
type planner struct {
	world World
	waits map[string]Wait
	now   time.Time
	// revision is the last revision that was taken.
	revision   int64
	candidates []placement.Candidate
	// old are the nodes with an Address in the VPC that can't use roles, by name. Others
	// hold up nothing: one stolen node could stop the roles of all VPCs.
	old []string

	gone, serve, leave, create, remove []Step

	out Plan
}

// all plans each role, also roles with members that are not wanted any more.
func (p *planner) all() {
	byKey := map[string][]*roles.Member{}
	byName := func(a, b *roles.Member) int { return cmp.Compare(a.Name, b.Name) }
	for _, m := range slices.SortedFunc(slices.Values(p.world.Members), byName) {
		if m.VPCUID != p.world.VPC.UID {
			p.gone = append(p.gone, Step{Delete, *m})
			continue
		}
		byKey[m.Key()] = append(byKey[m.Key()], m)
	}
	vpc := p.world.VPC
	if vpc.UID == "" {
		return
	}
	p.out.Dividers = p.one(roles.Member{VPC: vpc.Name, VPCUID: vpc.UID}, vpc.Dividers, byKey[vpc.UID])
	delete(byKey, vpc.UID)
	subnetsByName := func(a, b Subnet) int { return cmp.Compare(a.Name, b.Name) }
	for _, s := range slices.SortedFunc(slices.Values(p.world.Subnets), subnetsByName) {
		of := roles.Member{VPC: vpc.Name, VPCUID: vpc.UID, Subnet: s.Name, SubnetUID: s.UID}
		p.out.Bouncers[s.Name] = p.one(of, roles.Bouncers(s.Bouncers, vpc.Dividers), byKey[s.UID])
		delete(byKey, s.UID)
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		p.one(roles.Member{}, 0, byKey[key])
	}
}

// one plans a role of n nodes. of has the fields that all members of the role share.
func (p *planner) one(of roles.Member, n int, members []*roles.Member) Summary {
	placed := n
	if p.world.Off {
		placed = 0
	}
	chosen := placement.Members(of.Key(), placed, p.candidates)
	r := &role{planner: p, wanted: placed, chosen: chosen}
	for _, m := range members {
		r.sort(m)
	}
	r.release()
	for _, node := range chosen {
		taken := slices.ContainsFunc(members, func(m *roles.Member) bool { return m.Node == node })
		if !taken && len(p.old) == 0 {
			m := of
			m.Name, m.Node, m.NodeUID, m.Stage = v1alpha1.RoleMemberName(
				of.Key(),
				node,
			), node, p.world.Nodes[node].UID, roles.Joining
			p.create = append(p.create, Step{Create, m})
		}
	}
	return p.summary(n, members)
}

// role has the members of a role that serve after this plan, and the next steps for the others.
type role struct {
	*planner
	wanted int
	chosen []string
	// serving counts the chosen members. spare members serve and are not chosen. dead members are
	// on nodes that are NotReady, fenced or gone.
	serving     int
	spare, dead []*roles.Member
}

// sort decides about a member that needs no other one's state.
func (r *role) sort(m *roles.Member) {
	node, known := r.world.Nodes[m.Node]
	exists := known && node.UID == m.NodeUID
	switch {
	case known && !exists:
		// The name would be in the way of its successor.
		r.gone = append(r.gone, Step{Delete, *m})
	case exists && slices.Contains(r.chosen, m.Node):
		r.sortChosen(m)
	case m.Stage == roles.Serving && exists && node.Alive:
		r.spare = append(r.spare, m)
	case m.Stage == roles.Serving:
		r.dead = append(r.dead, m)
	case !exists, m.Stage == roles.Joining:
		r.gone = append(r.gone, Step{Delete, *m}) // no node lists it
	case m.Stage == roles.Leaving:
		r.await(m)
	}
}

// sortChosen decides about a member that placement has chosen.
func (r *role) sortChosen(m *roles.Member) {
	switch {
	case m.Stage == roles.Serving:
		r.serving++
	case m.Complete:
		r.change(&r.serve, m, roles.Serving)
		r.serving++
	case m.Stage == roles.Leaving:
		r.change(&r.serve, m, roles.Joining)
	}
}

// release lets members go that serve and are not needed. While the role is wanted, the last serving
// member stays, wherever it is.
func (r *role) release() {
	keep := max(0, len(r.chosen)-r.serving)
	if r.wanted > 0 && r.serving == 0 {
		keep = max(keep, 1)
	}
	for i, m := range r.spare {
		if i >= keep {
			r.change(&r.leave, m, roles.Leaving)
		}
	}
	last := r.wanted > 0 && r.serving == 0 && len(r.spare) == 0
	for i, m := range r.dead {
		_, exists := r.world.Nodes[m.Node]
		switch {
		case last && i == 0:
		case exists:
			r.change(&r.leave, m, roles.Leaving)
		default:
			r.gone = append(r.gone, Step{Delete, *m})
		}
	}
}

func (r *role) change(steps *[]Step, m *roles.Member, stage string) {
	after := *m
	after.Stage = stage
	*steps = append(*steps, Step{Change, after})
}

// await deletes a member that leaves, once no node sends to it.
func (p *planner) await(m *roles.Member) {
	wait := p.waits[m.UID]
	if wait.Revision != m.Revision {
		wait = Wait{Revision: m.Revision, Left: p.now}
	}
	left := patience - p.now.Sub(wait.Left)
	switch over := left <= 0 || p.acknowledged(m); {
	case !over: // also where a node hosts the VPC since the last look
		wait.Acknowledged = time.Time{}
	case wait.Acknowledged.IsZero():
		wait.Acknowledged = p.now
	}
	p.out.Waits[m.UID] = wait
	if !wait.Acknowledged.IsZero() {
		left = grace - p.now.Sub(wait.Acknowledged)
		if left <= 0 {
			p.remove = append(p.remove, Step{Delete, *m})
			return
		}
	}
	if p.out.Next == 0 || left < p.out.Next {
		p.out.Next = left
	}
}

// acknowledged reports whether no node that may send to a member lists it. A fenced node sends
// nothing. A dead node's own report, or its absence, does not count for the node's own member.
func (p *planner) acknowledged(m *roles.Member) bool {
	lists := func(name string) bool {
		node, exists := p.world.Nodes[name]
		if !exists || node.Fenced || name == m.Node && !node.Alive {
			return false
		}
		return node.Listed < m.Revision
	}
	return !slices.ContainsFunc(p.world.Hosts, lists) &&
		!slices.ContainsFunc(p.world.Members, func(other *roles.Member) bool { return lists(other.Node) })
}

// number gives each change of a stage a revision of its own: a node that has acknowledged a
// revision has seen all changes up to it. A new member, which no node lists, has the last revision.
func (p *planner) number() {
	for i := range p.out.Steps {
		step := &p.out.Steps[i]
		if step.Verb == Change || step.Verb == Create && p.revision == 0 {
			p.revision++
		}
		if step.Verb != Delete {
			step.Member.Revision = p.revision
		}
	}
	if p.revision > p.world.VPC.Revision && p.world.VPC.UID != "" {
		p.out.Revision = p.revision
	}
}
