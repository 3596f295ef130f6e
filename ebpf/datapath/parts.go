// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Parts are a State in parts: those of the VPCs by VNI, and under 0 all that
// belongs to no VPC alone, which are Nodes, Probes, Hooks, Namespaces, and Closed
// and Services of VNI 0. Most changes concern one VPC of very many; by its parts
// ApplyParts tells what is another than the last time, and looks at nothing else.
//
// A part that was given to ApplyParts must not be changed afterwards: another one
// takes its place. Neither must the map.
type Parts map[uint32]*State

// Parts returns the State in parts. They share what the lists contain.
func (s State) Parts() Parts {
	p := Parts{}
	share(s.Interfaces, p, func(i Interface) uint32 { return i.VNI }, func(s *State) *[]Interface { return &s.Interfaces })
	share(s.Addresses, p, func(a Address) uint32 { return a.VNI }, func(s *State) *[]Address { return &s.Addresses })
	share(s.Subnets, p, func(n Subnet) uint32 { return n.VNI }, func(s *State) *[]Subnet { return &s.Subnets })
	share(s.VPCs, p, func(v VPC) uint32 { return v.VNI }, func(s *State) *[]VPC { return &s.VPCs })
	share(s.Closed, p, func(c ClosedPrefix) uint32 { return c.VNI }, func(s *State) *[]ClosedPrefix { return &s.Closed })
	share(s.Services, p, func(v Service) uint32 { return v.VNI }, func(s *State) *[]Service { return &s.Services })
	node := p.of(0)
	node.Nodes, node.Probes, node.Hooks, node.Namespaces = s.Nodes, s.Probes, s.Hooks, s.Namespaces
	return p
}

// share gives each row of a list to the part that it belongs to.
func share[R any](rows []R, p Parts, vni func(R) uint32, list func(*State) *[]R) {
	for _, row := range rows {
		to := list(p.of(vni(row)))
		*to = append(*to, row)
	}
}

// of returns a part, which is made if there is none.
func (p Parts) of(vni uint32) *State {
	if p[vni] == nil {
		p[vni] = &State{}
	}
	return p[vni]
}

// State returns all parts together, every list in the order of its keys.
func (p Parts) State() State {
	var s State
	for _, part := range p {
		s.Interfaces = append(s.Interfaces, part.Interfaces...)
		s.Addresses = append(s.Addresses, part.Addresses...)
		s.Subnets = append(s.Subnets, part.Subnets...)
		s.VPCs = append(s.VPCs, part.VPCs...)
		s.Nodes = append(s.Nodes, part.Nodes...)
		s.Closed = append(s.Closed, part.Closed...)
		s.Services = append(s.Services, part.Services...)
		s.Probes = append(s.Probes, part.Probes...)
		s.Hooks = append(s.Hooks, part.Hooks...)
		s.Namespaces = append(s.Namespaces, part.Namespaces...)
	}
	s.sort()
	return s
}

// differing lists the VNIs of which p has another part than last, ascending.
func (p Parts) differing(last Parts) []uint32 {
	var list []uint32
	for vni, part := range p {
		if last[vni] != part {
			list = append(list, vni)
		}
	}
	for vni := range last {
		if _, stays := p[vni]; !stays {
			list = append(list, vni)
		}
	}
	slices.Sort(list)
	return list
}

// validate returns an error wrapping ErrInvalidState that names the first
// contradiction in the parts of these VNIs, or between them and all others, which
// are as in last; last has none.
func (p Parts) validate(vnis []uint32, last Parts) error {
	between := false
	for _, vni := range vnis {
		now, then := p.orEmpty(vni), last.orEmpty(vni)
		if err := now.check(vni); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalidState, err)
		}
		between = between || vni == 0 || !reflect.DeepEqual(now.Interfaces, then.Interfaces) || !reflect.DeepEqual(now.VPCs, then.VPCs)
	}
	if !between {
		return nil
	}
	if err := p.checkBetween(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidState, err)
	}
	return nil
}

func (p Parts) orEmpty(vni uint32) *State {
	if part := p[vni]; part != nil {
		return part
	}
	return &State{}
}

// checkBetween looks for contradictions in what does not carry the VNI.
func (p Parts) checkBetween() error {
	c := newChecker()
	for _, vni := range slices.Sorted(maps.Keys(p)) {
		for _, v := range p[vni].VPCs {
			c.vpcs[v.VNI] = true
		}
		for _, i := range p[vni].Interfaces {
			if err := i.checkUnique(c); err != nil {
				return err
			}
		}
	}
	return p.orEmpty(0).checkNamespaces(c)
}

// compile turns valid parts of these VNIs into rows. Services that have in held
// with the same backends keep their id, all others get one that have does not use.
func (p Parts) compile(vnis []uint32, have *tables) *tables {
	t := newTables()
	for _, vni := range vnis {
		t.add(p.orEmpty(vni), have)
	}
	return t
}
