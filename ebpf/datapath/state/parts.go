// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Parts are a State in parts. Most changes concern very few of them: ApplyParts finds
// these by comparison with the last Parts, and examines no others. No row of a map
// belongs to two parts.
//
// Parts must not be changed after a call of ApplyParts: a change needs a new part,
// slice or map.
type Parts struct {
	// VPCs are the parts of VPCs by VNI, without Services; and under 0 all that
	// belongs to no VPC alone, which are Nodes, Own, Probes, Hooks, Namespaces, and Closed
	// and Services of VNI 0.
	VPCs map[uint32]*State
	// Services are virtual addresses of VPCs by VNI, and of networks outside of every VPC by
	// their numbers.
	Services map[uint32]VirtualAddresses
}

// Parts returns the State in parts. They share the elements of the lists.
func (s State) Parts() Parts {
	p := Parts{VPCs: map[uint32]*State{}, Services: map[uint32]VirtualAddresses{}}
	share(s.Interfaces, p, func(i Interface) uint32 { return i.VNI }, func(s *State) *[]Interface { return &s.Interfaces })
	share(s.Addresses, p, func(a Address) uint32 { return a.VNI }, func(s *State) *[]Address { return &s.Addresses })
	share(s.Subnets, p, func(n Subnet) uint32 { return n.VNI }, func(s *State) *[]Subnet { return &s.Subnets })
	share(s.Roles, p, func(r Role) uint32 { return r.Key.VNI }, func(s *State) *[]Role { return &s.Roles })
	share(s.VPCs, p, func(v VPC) uint32 { return v.VNI }, func(s *State) *[]VPC { return &s.VPCs })
	share(s.Closed, p, func(c ClosedPrefix) uint32 { return c.VNI }, func(s *State) *[]ClosedPrefix { return &s.Closed })
	share(s.NodePorts, p, func(n NodePort) uint32 { return n.VNI }, func(s *State) *[]NodePort { return &s.NodePorts })
	node := p.of(0)
	node.Announced, node.Own = s.Announced, s.Own
	node.Nodes, node.Probes, node.Hooks, node.Namespaces = s.Nodes, s.Probes, s.Hooks, s.Namespaces
	p.shareServices(s.Services)
	return p
}

// share gives each row of a list to its part.
func share[R any](rows []R, p Parts, vni func(R) uint32, list func(*State) *[]R) {
	for _, row := range rows {
		to := list(p.of(vni(row)))
		*to = append(*to, row)
	}
}

// of returns a part, and makes a missing part.
func (p Parts) of(vni uint32) *State {
	if p.VPCs[vni] == nil {
		p.VPCs[vni] = &State{}
	}
	return p.VPCs[vni]
}

// shareServices gives each service to its virtual address, or to the part of rows that
// belong to no VPC alone.
func (p Parts) shareServices(services []Service) {
	lists := map[uint32][]*VirtualAddress{}
	for _, s := range services {
		if s.VNI == 0 {
			p.of(0).Services = append(p.of(0).Services, s)
			continue
		}
		list, ip := lists[s.VNI], s.VIP.Unmap()
		at, found := slices.BinarySearchFunc(list, ip, (*VirtualAddress).Compare)
		if !found {
			list = slices.Insert(list, at, &VirtualAddress{VNI: s.VNI, IP: ip})
			lists[s.VNI] = list
		}
		list[at].Services = append(list[at].Services, s)
	}
	for vni, list := range lists {
		p.Services[vni] = VirtualAddressesOf(list...)
	}
}

// State returns all parts together, every list in the order of its keys.
func (p Parts) State() State {
	var s State
	for _, part := range p.VPCs {
		s.Interfaces = append(s.Interfaces, part.Interfaces...)
		s.Addresses = append(s.Addresses, part.Addresses...)
		s.Subnets = append(s.Subnets, part.Subnets...)
		s.VPCs = append(s.VPCs, part.VPCs...)
		s.Roles = append(s.Roles, part.Roles...)
		s.Nodes = append(s.Nodes, part.Nodes...)
		s.NodePorts = append(s.NodePorts, part.NodePorts...)
		s.Announced = append(s.Announced, part.Announced...)
		s.Own = append(s.Own, part.Own...)
		s.Closed = append(s.Closed, part.Closed...)
		s.Services = append(s.Services, part.Services...)
		s.Probes = append(s.Probes, part.Probes...)
		s.Hooks = append(s.Hooks, part.Hooks...)
		s.Namespaces = append(s.Namespaces, part.Namespaces...)
	}
	for _, list := range p.Services {
		for a := range list.All() {
			s.Services = append(s.Services, a.Services...)
		}
	}
	s.Sort()
	return s
}

// Changes are the differences between two Parts.
type Changes struct {
	// VNIs of the parts, ascending.
	VNIs []uint32
	// Listed are the VNIs with changed virtual addresses, ascending.
	Listed []uint32
	// Was and Is are those virtual addresses before and after.
	Was, Is []*VirtualAddress
	// misplaced is an address of Is that is not behind all others of its list, or is in the list
	// of another VNI; nil if all addresses are in place.
	misplaced *VirtualAddress
}

// Since returns the changes since the Parts before.
func (p Parts) Since(last Parts) Changes {
	n := Changes{VNIs: differing(p.VPCs, last.VPCs, func(a, b *State) bool { return a == b })}
	n.Listed = differing(
		p.Services,
		last.Services,
		func(a, b VirtualAddresses) bool { return sameList(a.pieces, b.pieces) },
	)
	for _, vni := range n.Listed {
		was, is := last.Services[vni], p.Services[vni]
		if was.Empty() != is.Empty() {
			n.VNIs = append(n.VNIs, vni) // rows of interfaces have a flag for Services
		}
		from, to := len(n.Was), len(n.Is)
		n.compare(vni, was, is)
		// Most changes are of services without affinity, and do not concern that.
		some := slices.ContainsFunc(n.Was[from:], (*VirtualAddress).HasAffinity) ||
			slices.ContainsFunc(n.Is[to:], (*VirtualAddress).HasAffinity)
		if some && was.hasAffinity() != is.hasAffinity() {
			n.VNIs = append(n.VNIs, vni)
		}
	}
	n.VNIs = unique(n.VNIs)
	return n
}

// Everything returns the whole content of the Parts.
func (p Parts) Everything() Changes { return p.Since(Parts{}) }

// differing lists the keys under which two maps differ, ascending.
func differing[V any](a, b map[uint32]V, same func(a, b V) bool) []uint32 {
	var list []uint32
	for key, now := range a {
		if last, known := b[key]; !known || !same(now, last) {
			list = append(list, key)
		}
	}
	for key := range b {
		if _, stays := a[key]; !stays {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return list
}

// Add adds VNIs of parts that have to be examined as well.
func (n *Changes) Add(vnis ...uint32) { n.VNIs = unique(append(n.VNIs, vnis...)) }

// sameList reports whether two slices are the same one.
func sameList[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// unique sorts, and removes repetitions.
func unique(list []uint32) []uint32 {
	slices.Sort(list)
	return slices.Compact(list)
}

// compare adds the elements that only one of two lists of a VNI has. The first one is sorted.
// Most elements are the same ones, so pointers are compared before addresses.
func (n *Changes) compare(vni uint32, was, is VirtualAddresses) {
	var last *VirtualAddress
	from, to := &cursor{pieces: was.pieces}, &cursor{pieces: is.pieces}
	for from.head() != nil || to.head() != nil {
		gone, come := from.head(), to.head()
		if gone == come {
			last = passCommon(from, to)
			continue
		}
		if gone != nil && (come == nil || !come.IP.Less(gone.IP)) {
			n.Was = append(n.Was, gone)
			from.pass()
		}
		if come == nil || gone != nil && gone.IP.Less(come.IP) {
			continue
		}
		// An element that stays is in its place if all new ones before it are.
		if n.misplaced == nil && (come.VNI != vni || last != nil && !last.IP.Less(come.IP)) {
			n.misplaced = come
		}
		n.Is, last = append(n.Is, come), come
		to.pass()
	}
}

// Validate returns an error wrapping ErrInvalid that names the first contradiction in
// the changes, or between them and the unchanged rest of last; last has no
// contradiction.
func (p Parts) Validate(n Changes, last Parts) error {
	between := false
	for _, vni := range n.VNIs {
		now, then := p.Part(vni), last.Part(vni)
		if err := now.check(vni); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		between = between || vni == 0 || !reflect.DeepEqual(now.Interfaces, then.Interfaces) ||
			!reflect.DeepEqual(now.VPCs, then.VPCs)
	}
	if err := p.checkVirtual(n); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !between {
		return nil
	}
	if err := p.checkBetween(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// checkVirtual finds contradictions in changed virtual addresses.
func (p Parts) checkVirtual(n Changes) error {
	for _, vni := range unique(slices.Concat(n.VNIs, n.Listed)) {
		if !p.Services[vni].Empty() && len(p.Part(vni).VPCs) == 0 && !IsOutside(vni) {
			return fmt.Errorf("services belong to VNI %d, which is no VPC of this state", vni)
		}
	}
	if a := n.misplaced; a != nil {
		return fmt.Errorf("virtual address %s of VNI %d is out of its place", a.IP, a.VNI)
	}
	for _, a := range n.Is {
		if err := a.check(); err != nil {
			return err
		}
	}
	return nil
}

// Part returns the part of a VNI, which is empty if it does not exist.
func (p Parts) Part(vni uint32) *State {
	if part := p.VPCs[vni]; part != nil {
		return part
	}
	return &State{}
}

// checkBetween finds contradictions in rows without a VNI.
func (p Parts) checkBetween() error {
	c := newChecker()
	for _, vni := range slices.Sorted(maps.Keys(p.VPCs)) {
		for _, v := range p.VPCs[vni].VPCs {
			c.vpcs[v.VNI] = true
		}
		for _, i := range p.VPCs[vni].Interfaces {
			if err := i.checkUnique(c); err != nil {
				return err
			}
		}
	}
	return p.Part(0).checkNamespaces(c)
}
