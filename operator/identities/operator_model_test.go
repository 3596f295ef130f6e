// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package identities

import (
	"maps"
	"slices"
	"time"

	"github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/identity"
)

// snapshot returns what the operator knows.
func (w *world) snapshot(o *operator) (*Snapshot, *state) {
	view := w.states[o.view].clone()
	for number, one := range o.identities {
		if view.identities[number] = one; one.UID == "" {
			delete(view.identities, number)
		}
	}
	maps.Copy(view.addresses, o.addresses)
	s := &Snapshot{Taken: o.taken, Settled: o.settled, Reported: map[uint32]bool{}}
	for _, uid := range slices.Sorted(maps.Keys(view.pods)) {
		s.Pods = append(s.Pods, w.podOf(view, uid))
	}
	for _, name := range slices.Sorted(maps.Keys(view.addresses)) {
		s.Addresses = append(s.Addresses, view.addresses[name].Address)
	}
	for _, number := range slices.Sorted(maps.Keys(view.identities)) {
		s.Identities = append(s.Identities, view.identities[number].Identity)
		s.Reported[number] = w.chance(30)
	}
	if w.answered(o, view) {
		s.Covered = o.covered
	}
	return s, view
}

func (w *world) answered(o *operator, view *state) bool {
	return o.call != 0 && !slices.ContainsFunc(view.replies[:], func(call int) bool { return call != o.call })
}

// pass lets the leader look, decide, and write. It may end after any write.
func (w *world) pass() {
	o := w.operators[w.leader]
	o.settled = o.settled || w.answered(o, w.states[o.view])
	s, view := w.snapshot(o)
	steps := o.term.Plan(s, w.now)
	var writes []func()
	for _, one := range steps.Create {
		writes = append(writes, func() { w.createIdentity(o, one) })
	}
	for _, p := range steps.Patch {
		one := view.identities[p.To]
		writes = append(writes, func() { w.patchAddress(o, p, one.Set.Canonical()) })
	}
	for _, uid := range slices.Sorted(maps.Keys(steps.Assigned)) {
		writes = append(writes, w.newAddresses(o, view, uid, steps.Assigned[uid])...)
	}
	for _, one := range steps.Delete {
		writes = append(writes, func() { w.endIdentity(o, one, false) })
	}
	for _, one := range steps.Release {
		writes = append(writes, func() { w.endIdentity(o, one, true) })
	}
	writes = append(writes, w.ask(o, view, steps.Resting)...)
	for _, write := range writes {
		w.send(write)
		if !w.calm && w.chance(4) {
			w.begin(w.leader)
			return
		}
	}
}

// ask makes a call if none of this term stands, or a number rests that it does not cover.
func (w *world) ask(o *operator, view *state, resting []string) []func() {
	uncovered := slices.ContainsFunc(resting, func(uid string) bool { return !o.covered[uid] })
	if o.call != 0 && view.call == o.call && !uncovered {
		return nil
	}
	w.calls++
	call := w.calls
	o.call, o.covered = call, map[string]bool{}
	for _, uid := range resting {
		o.covered[uid] = true
	}
	return []func(){func() { w.write(w.now, func(s *state, _ int) { s.call = call }) }}
}

// claim creates an Address of a pod that the operator sees, between two passes.
func (w *world) claim() {
	o := w.operators[w.leader]
	view := w.states[o.view]
	uid, ok := pick(w, view.pods)
	if !ok {
		return
	}
	pod := w.podOf(view, uid)
	number := o.term.Assign(&pod, w.now)
	if number == 0 {
		return
	}
	set := identity.Of(&pod.Identity, pod.Selected)
	one := Address{Name: uid + []string{"v4", "v6"}[w.IntN(2)], Pod: uid, Identity: number}
	w.send(func() {
		if version, ok := w.address(w.now, one, set.Canonical()); ok {
			o.addresses[one.Name] = endpoint{w.latest().addresses[one.Name].Address, "", version}
		}
	})
}

// podOf returns a pod of a state as the operator sees it.
func (w *world) podOf(view *state, uid string) Pod {
	return Pod{
		UID:      uid,
		Identity: policy.Identity{VPC: "red", Namespace: "n", Labels: view.pods[uid]},
		Selected: func(key string) bool { return view.selected[key] },
	}
}

// newAddresses creates the Addresses of a pod, one per family.
func (w *world) newAddresses(o *operator, view *state, pod string, number uint32) (writes []func()) {
	meaning := view.identities[number]
	for _, family := range []string{"v4", "v6"} {
		one := Address{Name: pod + family, Pod: pod, Identity: number}
		if _, exists := view.addresses[one.Name]; exists {
			continue
		}
		writes = append(writes, func() {
			if version, ok := w.address(w.now, one, meaning.Set.Canonical()); ok {
				o.addresses[one.Name] = endpoint{w.latest().addresses[one.Name].Address, "", version}
			}
		})
	}
	return writes
}

func (w *world) createIdentity(o *operator, one Identity) {
	version, created := w.create(w.now, one)
	is := w.latest().identities[one.Number]
	switch {
	case created:
		is.version = version
		o.identities[one.Number] = is
	case w.chance(50):
		o.identities[one.Number] = object{is.Identity, w.last()} // it reads the object that has the name
	default:
		o.taken[one.Number] = true
	}
}

func (w *world) patchAddress(o *operator, p Patch, meaning string) {
	if version, ok := w.patch(w.now, p, meaning); ok {
		p.Address.Identity = p.To
		o.addresses[p.Address.Name] = endpoint{p.Address, "", version}
	}
}

func (w *world) endIdentity(o *operator, one Identity, remove bool) {
	version, ok := w.setIdentity(w.now, one, remove)
	if !ok {
		return
	}
	one.Deleting = true
	if remove {
		one.UID = ""
	}
	o.identities[one.Number] = object{one, version}
}

// settle lets everything come to rest: no events but the work of one operator and the nodes.
func (w *world) settle() {
	w.advance(latest)
	w.calm = true
	w.begin(w.leader)
	w.write(w.now, func(s *state, _ int) {
		maps.DeleteFunc(s.addresses, func(_ string, a endpoint) bool { return s.pods[a.Pod] == nil })
	})
	for range 3 * 40 {
		w.forget(w.operators[w.leader], w.last())
		w.pass()
		for node := range nodes {
			w.read(node)
		}
		w.advance(Life / 20)
	}
}

// checkEnd fails the test unless each pod has the identity of its labels, and no other identity is
// left.
func (w *world) checkEnd() {
	w.t.Helper()
	s := w.latest()
	used := map[uint32]bool{}
	for name, a := range s.addresses {
		used[a.Identity] = true
		labels, alive := s.pods[a.Pod]
		one, ok := s.identities[a.Identity]
		if alive && (!ok || one.Deleting || !described(&one.Set, labels, s.selected)) {
			w.t.Errorf("Address %s of a pod with labels %v, selected by %v, has number %d for %+v", name, labels, s.selected, a.Identity, one)
		}
	}
	for uid := range s.pods {
		for _, family := range []string{"v4", "v6"} {
			if _, ok := s.addresses[uid+family]; !ok {
				w.t.Errorf("%s has no Address %s", uid, family)
			}
		}
	}
	for number, one := range s.identities {
		if !used[number] || one.Deleting {
			w.t.Errorf("identity %d is left: %+v", number, one)
		}
	}
	if w.t.Failed() {
		w.t.Logf("%d states, %s in the end", len(w.states), w.now.Sub(time.Unix(1_000_000, 0)))
	}
}
