// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyplan

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	rows "github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/compile"
	"github.com/alioth-net/alioth/store/rules/policy/identity"
)

// Planner has the policies, the namespaces and the VPCs of one node. It is not for concurrent use.
type Planner struct {
	policies policies
	// namespaces are the labels of namespaces.
	namespaces map[string]map[string]string
	vpcs       map[string]*vpc
	// shared are the identities of the backends of shared services, sharedAddresses their addresses.
	shared          map[uint32]*peer
	sharedAddresses addresses
	quota           Size
}

// Identity is an identity that the node knows.
type Identity struct {
	Number uint32
	Set    *identity.Set
	// Resting is true once no Address has the number any more. Such an identity delays no set.
	Resting bool
}

// Interface is an interface of a pod on this node.
type Interface struct {
	Ifindex  int
	Identity uint32
}

// peer is an identity with the labels of its namespace.
type peer struct {
	Identity
	compile.Peer
}

// Plan has the rows of all VPCs.
type Plan struct {
	// Parts are the rows by VNI.
	Parts map[uint32]*Part
	// Shared are the known identities of the backends of shared services, in their order.
	Shared []uint32
	// SharedAddresses are the identities of the addresses of these backends.
	SharedAddresses map[netip.Addr]uint32
}

// New returns a Planner without objects. quota is the number of rows that a VPC may have.
func New(quota Size) *Planner {
	return &Planner{
		policies: newPolicies(), namespaces: map[string]map[string]string{}, vpcs: map[string]*vpc{},
		shared: map[uint32]*peer{}, quota: quota,
	}
}

// Plan returns the rows of the present objects. Parts of VPCs that have not changed stay.
func (p *Planner) Plan() Plan {
	plan := Plan{
		Parts: map[uint32]*Part{}, Shared: slices.Sorted(maps.Keys(p.shared)),
		SharedAddresses: p.sharedAddresses.output(p.quota.Addresses),
	}
	for _, v := range p.vpcs {
		if v.vni != 0 {
			plan.Parts[v.vni] = v.plan(p)
		}
	}
	return plan
}

// PutPolicy adds a policy, or replaces the policy of its key. A rehearsed policy is in the second set
// of guards only. The row must not change afterwards.
func (p *Planner) PutPolicy(row *rows.Policy, rehearsed bool) {
	before := p.policies.all[row.Key]
	if before != nil && before.rehearsed == rehearsed && sameRules(before.row, row) {
		return
	}
	p.policies.put(row, rehearsed)
	p.staleSubjects(before, p.policies.all[row.Key])
}

// sameRules reports whether two policies differ in their metadata alone.
func sameRules(a, b *rows.Policy) bool {
	one, other := *a, *b
	one.Meta = other.Meta
	return reflect.DeepEqual(one, other)
}

// DeletePolicy removes the policy of a key, if there is one.
func (p *Planner) DeletePolicy(key rows.Key) {
	if before := p.policies.all[key]; before != nil {
		p.policies.delete(key)
		p.staleSubjects(before)
	}
}

// staleSubjects marks the identities of interfaces that one of the policies may apply to.
func (p *Planner) staleSubjects(policies ...*entry) {
	for _, v := range p.vpcs {
		for number := range v.wanted {
			local := v.peers[peerKey{identity: number}]
			if slices.ContainsFunc(policies, func(e *entry) bool { return e != nil && e.answer(local) != policy.No }) {
				v.forget(number)
			}
		}
	}
}

// PutNamespace sets the labels of a namespace.
func (p *Planner) PutNamespace(name string, labels map[string]string) {
	if before, known := p.namespaces[name]; !known || !maps.Equal(before, labels) {
		p.namespaces[name] = labels
		p.relabel(name)
	}
}

// DeleteNamespace removes the labels of a namespace.
func (p *Planner) DeleteNamespace(name string) {
	delete(p.namespaces, name)
	p.relabel(name)
}

// relabel gives the identities of a namespace its labels.
func (p *Planner) relabel(namespace string) {
	for _, one := range p.shared {
		if one.Set.Namespace == namespace {
			p.PutShared(one.Identity)
		}
	}
	for _, v := range p.vpcs {
		for key, one := range v.peers {
			if !key.shared && one.Set.Namespace == namespace {
				v.put(key, p.peer(one.Identity))
			}
		}
	}
}

// peer returns an identity with the present labels of its namespace.
func (p *Planner) peer(in Identity) *peer {
	return &peer{Identity: in, Peer: compile.Peer{
		Identity: policy.Identity{
			VPC: in.Set.VPC, Namespace: in.Set.Namespace, NamespaceLabels: p.namespaces[in.Set.Namespace],
			Labels: in.Set.Labels, Ports: in.Set.Ports,
		},
		Omitted: slices.Sorted(slices.Values(in.Set.Omitted)),
	}}
}

// PutVPC sets the number of a VPC, and its interfaces on this node.
func (p *Planner) PutVPC(name string, vni uint32, interfaces []Interface) {
	v := p.vpc(name)
	now := map[int]uint32{}
	for _, one := range interfaces {
		now[one.Ifindex] = one.Identity
	}
	if v.vni != vni || !maps.Equal(v.interfaces, now) {
		v.vni, v.interfaces, v.stale = vni, now, true
	}
}

// DeleteVPC removes a VPC with its identities and addresses.
func (p *Planner) DeleteVPC(name string) { delete(p.vpcs, name) }

func (p *Planner) vpc(name string) *vpc {
	v := p.vpcs[name]
	if v == nil {
		v = newVPC()
		for number, one := range p.shared {
			v.put(peerKey{true, number}, one)
		}
		p.vpcs[name] = v
	}
	return v
}

// PutIdentity adds an identity of a VPC. Of the identity of a number only Resting may change.
func (p *Planner) PutIdentity(in Identity) {
	p.vpc(in.Set.VPC).put(peerKey{identity: in.Number}, p.peer(in))
}

// DeleteIdentity removes an identity of a VPC.
func (p *Planner) DeleteIdentity(vpc string, number uint32) {
	if v := p.vpcs[vpc]; v != nil {
		v.put(peerKey{identity: number}, nil)
	}
}

// PutShared adds an identity of the backends of shared services.
func (p *Planner) PutShared(in Identity) {
	p.shared[in.Number] = p.peer(in)
	for _, v := range p.vpcs {
		v.put(peerKey{true, in.Number}, p.shared[in.Number])
	}
}

// DeleteShared removes an identity of the backends of shared services.
func (p *Planner) DeleteShared(number uint32) {
	delete(p.shared, number)
	for _, v := range p.vpcs {
		v.put(peerKey{true, number}, nil)
	}
}

// PutAddress sets the identity of an address of a VPC; 0 removes it.
func (p *Planner) PutAddress(vpc string, ip netip.Addr, number uint32) {
	if v := p.vpc(vpc); v.addresses.put(ip, number) {
		v.stale = true
	}
}

// PutSharedAddress sets the identity of an address of a backend of a shared service; 0 removes it.
func (p *Planner) PutSharedAddress(ip netip.Addr, number uint32) { p.sharedAddresses.put(ip, number) }

// addresses are the identities of addresses.
type addresses struct {
	all map[netip.Addr]uint32
	// out is nil after a change.
	out map[netip.Addr]uint32
}

// put sets the identity of an address, and reports whether it had another one.
func (a *addresses) put(ip netip.Addr, number uint32) bool {
	if a.all[ip] == number {
		return false
	}
	if a.all == nil {
		a.all = map[netip.Addr]uint32{}
	}
	if a.all[ip] = number; number == 0 {
		delete(a.all, ip)
	}
	a.out = nil
	return true
}

// output returns the first addresses of a number.
func (a *addresses) output(most int) map[netip.Addr]uint32 {
	switch {
	case a.out != nil:
	case len(a.all) <= most:
		a.out = maps.Clone(a.all)
	default:
		a.out = map[netip.Addr]uint32{}
		for _, ip := range slices.SortedFunc(maps.Keys(a.all), netip.Addr.Compare)[:most] {
			a.out[ip] = a.all[ip]
		}
	}
	return a.out
}
