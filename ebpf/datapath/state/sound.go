// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"
)

// Sound returns the parts without the rows that contradict themselves or others, and why each
// of them is left out. It is for parts that Validate rejects: it examines all rows.
//
// A row that is left out takes the smallest part of the State with it that is safe without the
// row. A row is left out by itself. A VPC goes with all of its rows. Of interfaces that share a
// device or a shadow address none stays. A row that would close a destination takes with it the
// egress of its VPC, or of all VPCs.
func (p Parts) Sound() (Parts, []error) {
	f := &soundness{Parts: Parts{VPCs: map[uint32]*State{}, Services: maps.Clone(p.Services)}}
	for vni, part := range p.VPCs {
		own := *part
		f.VPCs[vni] = &own
	}
	f.interfaces()
	for _, vni := range slices.Sorted(maps.Keys(f.VPCs)) {
		f.part(vni)
	}
	f.egress()
	f.namespaces()
	f.services()
	return f.Parts, f.left
}

// soundness has the parts that unsound rows are taken out of.
type soundness struct {
	Parts
	left []error
	// closing are the VNIs with a row less that closes a destination; 0: of all VPCs.
	closing map[uint32]bool
}

func (f *soundness) leaveOut(err error) { f.left = append(f.left, err) }

func (f *soundness) checker() *checker {
	c := newChecker()
	c.leaveOut = f.leaveOut
	return c
}

// interfaces takes out interfaces that share a device or a shadow: their owner is unknown.
func (f *soundness) interfaces() {
	holders := map[any]int{}
	for _, part := range f.VPCs {
		for _, i := range part.Interfaces {
			for key := range i.unique {
				holders[key]++
			}
		}
	}
	for _, vni := range slices.Sorted(maps.Keys(f.VPCs)) {
		c := f.checker()
		_ = each(c, &f.VPCs[vni].Interfaces, func(i Interface) error { // leaves out, and returns none
			for key := range i.unique {
				if holders[key] > 1 {
					return fmt.Errorf("interface %d shares its device or a shadow address with another one", i.Ifindex)
				}
			}
			return nil
		})
	}
}

// part takes contradictions out of the part of a VNI. Without its VPC the part is empty.
func (f *soundness) part(vni uint32) {
	part, c := f.VPCs[vni], f.checker()
	closed, present := len(part.Closed), len(part.VPCs)
	if err := part.checkAll(c, vni); err != nil {
		f.leaveOut(err)
		part.VPCs = nil
	}
	if vni != 0 && (len(part.VPCs) < present || present == 0) {
		f.leaveOut(fmt.Errorf("the VPC of VNI %d is left out", vni))
		delete(f.VPCs, vni)
		delete(f.Services, vni)
		return
	}
	if len(part.Closed) < closed {
		if f.closing == nil {
			f.closing = map[uint32]bool{}
		}
		f.closing[vni] = true
	}
}

// egress ends the egress of VPCs that have lost the row of a closed destination.
func (f *soundness) egress() {
	for vni, part := range f.VPCs {
		if !f.closing[0] && !f.closing[vni] {
			continue
		}
		part.VPCs = slices.Clone(part.VPCs)
		for i := range part.VPCs {
			part.VPCs[i].EgressMasquerade = false
			f.leaveOut(fmt.Errorf("the egress of VNI %d is left out: a destination that is closed can't be programmed", vni))
		}
	}
}

// namespaces takes out namespaces with an interface in no VPC of the State.
func (f *soundness) namespaces() {
	node := f.VPCs[0]
	if node == nil {
		return
	}
	c := f.checker()
	for _, part := range f.VPCs {
		for _, v := range part.VPCs {
			c.vpcs[v.VNI] = true
		}
	}
	_ = node.checkNamespaces(c) // leaves out, and returns none
}

// services takes contradictions out of virtual addresses.
func (f *soundness) services() {
	for _, vni := range slices.Sorted(maps.Keys(f.Services)) {
		if f.VPCs[vni] == nil && !IsOutside(vni) {
			f.leaveOut(fmt.Errorf("the services of VNI %d are left out with their VPC", vni))
			delete(f.Services, vni)
			continue
		}
		var changes []VirtualChange
		for a := range f.Services[vni].All() {
			if now := f.virtual(a); now != a {
				changes = append(changes, VirtualChange{IP: a.IP, Now: now})
			}
		}
		if f.Services[vni] = f.Services[vni].With(changes...); f.Services[vni].Empty() {
			delete(f.Services, vni)
		}
	}
}

// virtual returns a virtual address without contradictions; nil: without any service.
func (f *soundness) virtual(a *VirtualAddress) *VirtualAddress {
	if a.check() == nil {
		return a
	}
	now := &VirtualAddress{VNI: a.VNI, IP: a.IP, Services: slices.DeleteFunc(slices.Clone(a.Services), a.foreign)}
	_ = checkServices(&now.Services, f.checker()) // leaves out, and returns none
	if now.check() != nil {
		f.leaveOut(fmt.Errorf("virtual address %s of VNI %d is left out", a.IP, a.VNI))
		return nil
	}
	return now
}
