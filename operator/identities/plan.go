// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identities plans the allocation of the numbers that stand for label sets in packets
// (docs/design/165-network-policies.md). It is pure: the caller writes the steps, and hands in the
// time.
//
// The creation of a PolicyIdentity is the allocation of its number. An identity that no Address has
// is deleted after Life. Its finalizer keeps the number, while nodes take the identity for gone. A
// roll call shows that all known nodes do, and then the finalizer goes. A request that arrives later
// than Life after it was sent is the only one that the plan does not expect.
package identities

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/identity"
)

const (
	// Life is how long an identity lives without an Address. A new term counts from its beginning.
	Life = 10 * time.Minute
	// Patience is how long Addresses wait until the nodes report a new identity.
	Patience = 2 * time.Second
	// MaxIdentities limits the identities of a VPC.
	MaxIdentities = 16_384
	// attempts is how many numbers are tried for a set.
	attempts = 64
)

// Reasons why a pod has no identity yet.
var (
	ErrUnsettled = errors.New("numbers are not chosen before the nodes have replied to the roll call of the term")
	ErrFull      = errors.New("the VPC has as many identities as it may have: use fewer different labels")
	ErrConflict  = errors.New("all numbers that were tried for the labels of the pod stand for other labels")
)

// Identity is a PolicyIdentity object.
type Identity struct {
	// UID is "" in a step that creates the object.
	UID    string
	Number uint32
	Set    identity.Set
	// Deleting is true once the object has a deletion timestamp. Its number rests: the identity has
	// no new Address, and nodes take it for gone.
	Deleting bool
}

// Address is an Address object of a VPC.
type Address struct {
	Name, UID string
	// Pod is the UID of the holder, "" if no pod holds it.
	Pod string
	// Identity is 0 without one.
	Identity uint32
}

// Pod is a living pod of a VPC, with or without Addresses.
type Pod struct {
	UID string
	// Identity has the labels and ports of the pod, and the VPC.
	Identity policy.Identity
	// Selected reports whether a policy may select the pod by a label with the key.
	Selected func(key string) bool
}

// Snapshot has the objects of one VPC.
type Snapshot struct {
	Pods       []Pod
	Addresses  []Address
	Identities []Identity
	// Taken are numbers that have an object although Identities has none: the API refused a creation.
	Taken map[uint32]bool
	// Reported are numbers that each node with the VPC has reported.
	Reported map[uint32]bool
	// Settled is true once the nodes have replied to the first roll call of the term.
	Settled bool
	// Covered are the UIDs of identities that were in Steps.Resting before the last roll call was
	// written, once all known nodes have replied to it.
	Covered map[string]bool
}

// Patch changes the identity of an Address. It must fail unless the Address has From.
type Patch struct {
	Address  Address
	From, To uint32
}

// Steps are the writes to make, in the order of the fields.
type Steps struct {
	Create []Identity
	Patch  []Patch
	// Assigned are the numbers for new Addresses, by the UID of the pod.
	Assigned map[string]uint32
	// Delete has identities to delete, by their UID. The finalizer keeps them.
	Delete []Identity
	// Resting are the UIDs of identities that the next roll call covers.
	Resting []string
	// Release has identities that lose their finalizer.
	Release []Identity
	// Waiting are the reasons of pods that get no identity now.
	Waiting map[string]error
	// Again is the time until the next plan if nothing changes; 0 for never.
	Again time.Duration
}

// Term is the memory of one term of an operator about one VPC. It ends with the term: another
// operator may have written since.
type Term struct {
	// used is the last time at which an identity was in use, by its UID; seen the first time at
	// which the term knew it.
	used, seen map[string]time.Time
	// ready has the identities that new Addresses may get by the last plan, by their canonical form.
	ready   map[string]Identity
	numbers func(*identity.Set) iter.Seq[uint32]
}

// NewTerm returns a Term that knows no identity.
func NewTerm() *Term {
	return &Term{used: map[string]time.Time{}, seen: map[string]time.Time{}, numbers: (*identity.Set).Numbers}
}

// Plan returns the next writes for a VPC. It takes for granted that the caller makes them now.
func (t *Term) Plan(s *Snapshot, now time.Time) Steps {
	p := t.begin(s, now)
	for i := range s.Pods {
		p.serve(&s.Pods[i])
	}
	for i := range p.identities {
		p.retire(&p.identities[i])
	}
	t.ready = p.usable()
	return p.steps
}

// Assign returns the number for a new Address of a pod, 0 without one. It counts as a use of the
// identity. The Address need not be known to the next plan.
func (t *Term) Assign(pod *Pod, now time.Time) uint32 {
	set := identity.Of(&pod.Identity, pod.Selected)
	one, ok := t.ready[set.Canonical()]
	if !ok {
		return 0
	}
	t.used[one.UID] = now
	return one.Number
}

// plan is one call of Plan.
type plan struct {
	*Term
	*Snapshot
	now   time.Time
	steps Steps
	// identities are in the order of their numbers.
	identities []Identity
	numbered   map[uint32]*Identity
	// live has the identities to use by their canonical form.
	live map[string]*Identity
	held map[string][]Address
	// carried are the numbers of all Addresses.
	carried map[uint32]bool
	// created are the numbers of steps, by canonical form, and chosen the same numbers.
	created map[string]bool
	chosen  map[uint32]bool
}

func (t *Term) begin(s *Snapshot, now time.Time) *plan {
	p := &plan{
		Term: t, Snapshot: s, now: now,
		numbered: map[uint32]*Identity{}, live: map[string]*Identity{}, held: map[string][]Address{},
		carried: map[uint32]bool{}, created: map[string]bool{}, chosen: map[uint32]bool{},
		steps: Steps{Assigned: map[string]uint32{}, Waiting: map[string]error{}},
	}
	for _, a := range s.Addresses {
		if a.Identity != 0 {
			p.carried[a.Identity] = true
		}
		if a.Pod != "" {
			p.held[a.Pod] = append(p.held[a.Pod], a)
		}
	}
	p.identities = slices.SortedFunc(slices.Values(s.Identities), func(a, b Identity) int {
		return cmp.Compare(a.Number, b.Number)
	})
	p.remember()
	return p
}

// remember brings the memory of the term up to date.
func (p *plan) remember() {
	used, seen := map[string]time.Time{}, map[string]time.Time{}
	for i := range p.identities {
		one := &p.identities[i]
		p.numbered[one.Number] = one
		if form := one.Set.Canonical(); !one.Deleting && p.live[form] == nil {
			p.live[form] = one
		}
		first, known := p.seen[one.UID]
		if used[one.UID], seen[one.UID] = p.used[one.UID], first; !known {
			used[one.UID], seen[one.UID] = p.now, p.now
		}
		if p.carried[one.Number] {
			used[one.UID] = p.now
		}
	}
	p.used, p.seen = used, seen
}

// serve plans for one pod.
func (p *plan) serve(pod *Pod) {
	one, err := p.choose(pod)
	if err != nil {
		p.steps.Waiting[pod.UID] = err
	}
	if one == nil {
		return
	}
	p.used[one.UID] = p.now
	if left := p.patience(one); left > 0 {
		p.again(left)
		return
	}
	p.steps.Assigned[pod.UID] = one.Number
	for _, a := range p.held[pod.UID] {
		if a.Identity != one.Number {
			p.steps.Patch = append(p.steps.Patch, Patch{Address: a, From: a.Identity, To: one.Number})
		}
	}
}

// choose returns the identity for a pod: one that an Address of the pod has, or else the one of the
// pod's set. Without one it creates it, and returns nil.
func (p *plan) choose(pod *Pod) (*Identity, error) {
	for _, a := range p.held[pod.UID] {
		if one := p.numbered[a.Identity]; one != nil && !one.Deleting && one.Set.Suits(&pod.Identity, pod.Selected) {
			return one, nil
		}
	}
	set := identity.Of(&pod.Identity, pod.Selected)
	if err := set.Check(); err != nil {
		return nil, err
	}
	form := set.Canonical()
	if one := p.live[form]; one != nil || p.created[form] {
		return one, nil
	}
	switch {
	case !p.Settled:
		return nil, ErrUnsettled
	case len(p.identities)+len(p.steps.Create) >= MaxIdentities:
		return nil, ErrFull
	}
	number := p.free(&set)
	if number == 0 {
		return nil, ErrConflict
	}
	p.created[form], p.chosen[number] = true, true
	p.steps.Create = append(p.steps.Create, Identity{Number: number, Set: set})
	return nil, nil
}

// free returns the first number for a set that stands for nothing, 0 without one. A number without
// an object that an Address has may still be known to nodes.
func (p *plan) free(set *identity.Set) uint32 {
	tried := 0
	for number := range p.numbers(set) {
		if p.numbered[number] == nil && !p.carried[number] && !p.Taken[number] && !p.chosen[number] {
			return number
		}
		if tried++; tried == attempts {
			break
		}
	}
	return 0
}

// patience returns how long Addresses wait for an identity.
func (p *plan) patience(one *Identity) time.Duration {
	if p.Reported[one.Number] {
		return 0
	}
	return Patience - p.now.Sub(p.seen[one.UID])
}

// usable returns the identities that new Addresses may get, by their canonical form.
func (p *plan) usable() map[string]Identity {
	ready := map[string]Identity{}
	for form, one := range p.live {
		ends := slices.ContainsFunc(p.steps.Delete, func(d Identity) bool { return d.UID == one.UID })
		if !ends && p.patience(one) <= 0 {
			ready[form] = *one
		}
	}
	return ready
}

// retire plans the end of an identity that is not in use.
func (p *plan) retire(one *Identity) {
	if left := Life - p.now.Sub(p.used[one.UID]); left > 0 {
		if !p.carried[one.Number] {
			p.again(left)
		}
		return
	}
	switch {
	case !one.Deleting:
		p.steps.Delete = append(p.steps.Delete, *one)
	case p.Covered[one.UID]:
		p.steps.Release = append(p.steps.Release, *one)
	default:
		p.steps.Resting = append(p.steps.Resting, one.UID)
	}
}

// again asks for a plan after some time, if none is due before.
func (p *plan) again(left time.Duration) {
	if p.steps.Again == 0 || left < p.steps.Again {
		p.steps.Again = left
	}
}
