// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// This node, and two others that every table may name.
var (
	self   = wire.IP("192.0.2.1")
	others = [2]netip.Addr{wire.IP("192.0.2.2"), wire.IP("192.0.2.3")}
)

// Ends of the packet.
var (
	source      = wire.IP("10.0.1.10")
	destination = wire.IP("10.0.1.20")
)

// part is a node's part in a role.
type part int

const (
	none part = iota
	incomplete
	complete
)

// place is the target of a row; first and second are others.
type place int

const (
	nowhere place = iota
	first
	second
	here
	toSelf // a wrong row
	atGateway
	heldOutside
)

func (p place) node() netip.Addr {
	switch p {
	case first, second:
		return others[p-first]
	case toSelf:
		return self
	}
	return netip.Addr{}
}

// tables has everything that one node knows of the destination, right or wrong.
type tables struct {
	held, cached      place
	gone              bool // the cached row
	knowsSubnet       bool
	bouncer, divider  part
	bouncers          int // of others, as bits; 0: none
	dividers          int
	subnetIsWholeHere bool // no role: all addresses are here
	vpcIsWholeHere    bool // no role: all subnets are here
}

// members returns the members of a role.
func members(bits int) (list []netip.Addr) {
	for i, node := range others {
		if bits&(1<<i) != 0 {
			list = append(list, node)
		}
	}
	return list
}

const (
	bouncerRole = 1
	dividerRole = 2
)

// part returns the State of the tables, as far as it is valid in one.
func (c tables) part(vni uint32) *state.State {
	s := &state.State{VPCs: []state.VPC{{VNI: vni, Prefixes: []netip.Prefix{wire.Prefix("10.0.0.0/16")}}}}
	if !c.vpcIsWholeHere {
		s.VPCs[0].Role = dividerRole
		s.Roles = append(
			s.Roles,
			state.Role{Key: state.RoleKey{VNI: vni, ID: dividerRole}, Members: members(c.dividers), Here: c.divider != none, Complete: c.divider == complete},
		)
	}
	if c.knowsSubnet {
		n := state.Subnet{VNI: vni, Prefix: wire.Prefix("10.0.1.0/24")}
		if !c.subnetIsWholeHere {
			n.Role = bouncerRole
			s.Roles = append(
				s.Roles,
				state.Role{Key: state.RoleKey{VNI: vni, ID: bouncerRole}, Members: members(c.bouncers), Here: c.bouncer != none, Complete: c.bouncer == complete},
			)
		}
		s.Subnets = append(s.Subnets, n)
	}
	row := state.Address{VNI: vni, IP: destination, Kind: state.Remote, Node: c.held.node(), MAC: world.MacB}
	switch c.held {
	case nowhere, here:
		return s
	case atGateway:
		row = state.Address{VNI: vni, IP: destination, Kind: state.Gateway}
	case heldOutside:
		row = state.Address{VNI: vni, IP: destination, Kind: state.HeldOutside}
	}
	s.Addresses = append(s.Addresses, row)
	return s
}

// every lists tables of all combinations that a node might ever have.
func every() (list []tables) {
	subnets := []tables{
		{},
		{knowsSubnet: true, subnetIsWholeHere: true},
		{knowsSubnet: true},
		{knowsSubnet: true, bouncer: incomplete},
		{knowsSubnet: true, bouncer: complete},
	}
	for _, held := range []place{nowhere, first, second, here, toSelf, atGateway, heldOutside} {
		for _, cached := range []tables{{}, {cached: first}, {cached: second}, {cached: first, gone: true}, {cached: toSelf}} {
			for _, subnet := range subnets {
				for _, vpc := range []tables{{vpcIsWholeHere: true}, {}, {divider: incomplete}, {divider: complete}} {
					for bits := range 16 {
						c := tables{
							held: held, cached: cached.cached, gone: cached.gone,
							knowsSubnet: subnet.knowsSubnet, subnetIsWholeHere: subnet.subnetIsWholeHere, bouncer: subnet.bouncer,
							vpcIsWholeHere: vpc.vpcIsWholeHere, divider: vpc.divider, bouncers: bits & 3, dividers: bits >> 2,
						}
						// Members of missing roles make no difference. Cached rows beside held ones
						// that lead nowhere make none either.
						if c.held > here && c.cached != nowhere || (!c.knowsSubnet || c.subnetIsWholeHere) && c.bouncers != 0 || c.vpcIsWholeHere && c.dividers != 0 {
							continue
						}
						list = append(list, c)
					}
				}
			}
		}
	}
	return list
}

// onto gives a world the tables of each VPC. In all of them pod A has the source.
func onto(t *testing.T, w *world.World, list []tables) {
	t.Helper()
	p := state.State{Nodes: append([]netip.Addr{self}, others[:]...), Interfaces: w.State().Interfaces[:1], VPCs: w.State().VPCs[:1]}.Parts()
	for i, c := range list {
		p.VPCs[vniOf(i)] = c.part(vniOf(i))
	}
	bpftest.Must(t, w.ApplyParts(p))
	local := bpf.AliothAddress{Kind: bpf.AliothAddressKindADDRESS_LOCAL, Ifindex: uint32(w.PodA), Mac: world.MacA}
	for i, c := range list {
		key := bpf.AliothAddressKey{Vni: vniOf(i), Ip: bpf.EncodeAddr(source)}
		bpftest.Must(t, w.Objects.AliothAddresses.Put(key, local))
		if c.held == here {
			key.Ip = bpf.EncodeAddr(destination)
			bpftest.Must(t, w.Objects.AliothAddresses.Put(key, local))
		}
	}
}

func vniOf(i int) uint32 { return uint32(1000 + i) }

// enter moves pod A into the VPC of tables, and gives that its cached row.
func (b *bench) enter(t *testing.T, i int, c tables) {
	t.Helper()
	w := b.World
	row := bpf.AliothInterface{Vni: vniOf(i), Mac: world.MacA, Flags: flagsOf(b.own)}
	row.Ip[bpf.AliothFamilyFAMILY_V4] = bpf.EncodeAddr(source)
	bpftest.Must(t, w.Objects.AliothInterfaces.Put(uint32(w.PodA), row))
	putCached(t, w, i, c)
}

// flagsOf returns the flags of an interface whose packets have this source.
func flagsOf(source state.MAC) bpf.AliothInterfaceFlag {
	identity := binary.BigEndian.Uint32([]byte{0, source[2], source[3], source[4]})
	if source != world.IdentitySource(identity, 0, world.ClassOfDirect) {
		return 0
	}
	return bpf.AliothInterfaceFlag(identity)*bpf.AliothInterfaceFlagINTERFACE_IDENTITY | bpf.AliothInterfaceFlagINTERFACE_SENDS_IDENTITY
}

func putCached(t *testing.T, w *world.World, i int, c tables) {
	t.Helper()
	if c.cached == nowhere {
		return
	}
	bpftest.Must(t, w.Cached().Put(state.Cached{
		VNI: vniOf(i), IP: destination, Node: c.cached.node(), MAC: world.MacB, Gone: c.gone, Until: gone(t, c),
	}))
}
