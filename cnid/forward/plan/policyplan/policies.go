// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policyplan

import (
	"encoding/binary"
	"slices"

	rows "github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy"
)

// mode is one of the two sets of a guard: of the enforced policies, or of all of them.
type mode int

const (
	enforced mode = iota
	rehearsed
	modes
)

// policies has all policies, by mode.
type policies struct {
	all   map[rows.Key]*entry
	index [modes]*policy.Index
	// asking has the policies whose subjects ask for a label, by the key of the label.
	asking map[string]map[*entry]bool
	serial uint64
}

// entry is a policy. It has another serial number after each change.
type entry struct {
	row       *rows.Policy
	rehearsed bool
	serial    uint64
}

func newPolicies() policies {
	return policies{
		all: map[rows.Key]*entry{}, index: [modes]*policy.Index{policy.NewIndex(), policy.NewIndex()},
		asking: map[string]map[*entry]bool{},
	}
}

func (p *policies) put(row *rows.Policy, isRehearsed bool) {
	p.delete(row.Key)
	p.serial++
	e := &entry{row, isRehearsed, p.serial}
	p.all[row.Key] = e
	p.index[rehearsed].Put(row)
	if !isRehearsed {
		p.index[enforced].Put(row)
	}
	for i := range row.Subject.Pods {
		key := row.Subject.Pods[i].Key
		if p.asking[key] == nil {
			p.asking[key] = map[*entry]bool{}
		}
		p.asking[key][e] = true
	}
}

func (p *policies) delete(key rows.Key) {
	e := p.all[key]
	if e == nil {
		return
	}
	delete(p.all, key)
	for _, index := range p.index {
		index.Delete(key)
	}
	for i := range e.row.Subject.Pods {
		key := e.row.Subject.Pods[i].Key
		if delete(p.asking[key], e); len(p.asking[key]) == 0 {
			delete(p.asking, key)
		}
	}
}

// answer tells whether the policy applies to a pod.
func (e *entry) answer(pod *peer) policy.Answer {
	if !policy.AppliesTo(e.row, &pod.Peer.Identity) {
		return policy.No
	}
	return policy.Selects(&e.row.Subject, &pod.Peer.Identity, pod.Omits)
}

// wish has the policies of a set.
type wish struct {
	direction rows.Direction
	mode      mode
	// key is equal for equal sets of a VPC; "" for no set.
	key      string
	policies []*rows.Policy
	ports    []policy.Port
	// undecided are policies that may or may not apply to the pod.
	undecided []rows.Key
}

// wishes returns the sets that a pod shall have.
func (p *policies) wishes(pod *peer) (all []wish) {
	undecided := p.undecided(pod)
	for mode := range modes {
		subjects := slices.DeleteFunc(p.index[mode].Subjects(&pod.Peer.Identity), func(row *rows.Policy) bool {
			return slices.Contains(undecided, p.all[row.Key])
		})
		for direction := range rows.Egress + 1 {
			w := wish{direction: direction, mode: mode}
			w.policies = slices.DeleteFunc(slices.Clone(subjects), func(row *rows.Policy) bool { return !acts(row, direction) })
			for _, one := range undecided {
				if acts(one.row, direction) && (mode == rehearsed || !one.rehearsed) {
					w.undecided = append(w.undecided, one.row.Key)
				}
			}
			if mode == rehearsed && !p.anyRehearsed(w.policies) {
				w.policies = nil
			}
			p.name(&w, pod)
			all = append(all, w)
		}
	}
	return all
}

// acts reports whether a policy has a part in a direction.
func acts(row *rows.Policy, direction rows.Direction) bool {
	return row.Isolates[direction] || policy.Enforced(row, direction) && len(row.Rules[direction]) > 0
}

// undecided returns the policies that may or may not apply to a pod.
func (p *policies) undecided(pod *peer) (found []*entry) {
	for _, key := range pod.Omitted {
		for e := range p.asking[key] {
			if e.answer(pod) == policy.Undecided && !slices.Contains(found, e) {
				found = append(found, e)
			}
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return int(a.serial) - int(b.serial) })
	return found
}

func (p *policies) anyRehearsed(list []*rows.Policy) bool {
	return slices.ContainsFunc(list, func(row *rows.Policy) bool { return p.all[row.Key].rehearsed })
}

// name sets the key of a wish, and the named ports that its set depends on.
func (p *policies) name(w *wish, pod *peer) {
	if len(w.policies) == 0 {
		return
	}
	key, names := []byte{byte(w.direction)}, false
	for _, row := range w.policies {
		key = binary.AppendUvarint(key, p.all[row.Key].serial)
		names = names || w.direction == rows.Ingress && hasNames(row.Rules[w.direction])
	}
	if names {
		w.ports = pod.Ports
		for _, port := range w.ports {
			key = append(append(key, 0), port.Name...)
			key = append(append(key, 0), port.Protocol...)
			key = binary.BigEndian.AppendUint16(append(key, 0), port.Port)
		}
	}
	w.key = string(key)
}

func hasNames(list []rows.Rule) bool {
	return slices.ContainsFunc(list, func(r rows.Rule) bool {
		return slices.ContainsFunc(r.Ports, func(one rows.Ports) bool { return one.Name != "" })
	})
}
