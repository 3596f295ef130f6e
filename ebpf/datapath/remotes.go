// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"reflect"
	"slices"
)

// applied is a State that the maps are known to hold. Most changes are that a pod
// of another node comes or goes: one row of very many, of which to compile and
// compare all would be nearly all the work. By what was applied last such a change
// is told from others.
type applied struct {
	state State
	// attachments is how many there were.
	attachments int
}

// remember copies the lists, which are their owner's to change.
func remember(s State, t *tables) *applied {
	s.Interfaces, s.Addresses, s.Subnets = slices.Clone(s.Interfaces), slices.Clone(s.Addresses), slices.Clone(s.Subnets)
	s.VPCs, s.Nodes, s.Closed = slices.Clone(s.VPCs), slices.Clone(s.Nodes), slices.Clone(s.Closed)
	s.Services, s.Probes, s.Hooks = slices.Clone(s.Services), slices.Clone(s.Probes), slices.Clone(s.Hooks)
	return &applied{state: s, attachments: len(t.attachments)}
}

// remoteChanges lists the steps from what was applied last to s, in the order of
// makePlan. ok is false where they have to be found the long way: when s differs in
// more than Remote addresses, is not sorted, or may be invalid.
func (d *Datapath) remoteChanges(s State) (plan []operation, ok bool) {
	last := d.applied
	if last == nil || d.unpruned {
		return nil, false
	}
	now, then := s, last.state
	now.Addresses, then.Addresses = nil, nil
	if !ascending(s.Addresses) || !ascending(last.state.Addresses) || !reflect.DeepEqual(now, then) {
		return nil, false
	}
	gone, come := compareLists(last.state.Addresses, s.Addresses)
	for _, a := range gone {
		key, _ := a.row()
		plan = append(plan, operation{Table: tableAddresses, Delete: true, Key: key})
	}
	for _, a := range come {
		if _, present := d.have.vpcs[a.VNI]; !present || a.Kind != Remote || a.Ifindex != 0 || a.IP.Is4In6() ||
			checkIP("address", a.IP) != nil || checkIP("node", a.Node) != nil {
			return nil, false
		}
		key, row := a.row()
		plan = append(plan, operation{Table: tableAddresses, Key: key, Value: row})
	}
	return plan, true
}

// changeRemotes takes such steps, and notes what the maps hold then.
func (d *Datapath) changeRemotes(s State, plan []operation) error {
	have := d.have
	d.have, d.applied = nil, nil // until every step is known to be done
	if _, err := d.execute(plan); err != nil {
		return err
	}
	for _, op := range plan {
		key := op.Key.(aliothAddressKey)
		if op.Delete {
			delete(have.addresses, key)
			continue
		}
		have.addresses[key] = op.Value.(aliothAddress)
	}
	d.have, d.applied = have, remember(s, have)
	return nil
}

func compareAddresses(a, b Address) int {
	return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.IP.Compare(b.IP))
}

// ascending tells whether addresses are in the order of their keys, each once.
func ascending(list []Address) bool {
	for i := 1; i < len(list); i++ {
		if compareAddresses(list[i-1], list[i]) >= 0 {
			return false
		}
	}
	return true
}

// compareLists compares ascending lists. What is gone is only in the old one; what
// has come is only in the new one, or another there.
func compareLists(old, now []Address) (gone, come []Address) {
	for len(old) > 0 && len(now) > 0 {
		order := compareAddresses(old[0], now[0])
		if order < 0 {
			gone = append(gone, old[0])
		} else if old[0] != now[0] {
			come = append(come, now[0])
		}
		if order <= 0 {
			old = old[1:]
		}
		if order >= 0 {
			now = now[1:]
		}
	}
	return append(gone, old...), append(come, now...)
}
