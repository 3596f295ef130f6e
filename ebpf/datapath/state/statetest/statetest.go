// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statetest has States for tests.
package statetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

var (
	addr   = netip.MustParseAddr
	ranges = netip.MustParsePrefix

	podMAC    = state.MAC{2, 0, 0, 0, 0, 0xa}
	remoteMAC = state.MAC{2, 0, 0, 0, 0, 0xc}
	shadow    = addr("169.254.64.10")
)

// SameAddr compares addresses and prefixes by their values.
var SameAddr = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

// Small returns a State with one row of each kind. Its VPC is 5, its device 7, with the
// shadow address 169.254.64.10.
func Small() state.State {
	return state.State{
		VPCs:    []state.VPC{{VNI: 5, Prefixes: []netip.Prefix{ranges("10.0.0.0/16")}, EgressMasquerade: true}},
		Subnets: []state.Subnet{{VNI: 5, Prefix: ranges("10.0.1.0/24")}},
		Interfaces: []state.Interface{{
			Ifindex: 7, VNI: 5, MAC: podMAC, Addrs: []netip.Addr{addr("10.0.1.10")}, Shadow4: shadow,
		}},
		Addresses: []state.Address{{VNI: 5, IP: addr("10.0.1.10"), Kind: state.Local, Ifindex: 7, MAC: podMAC}},
		Nodes:     []netip.Addr{addr("192.0.2.2")},
		Own:       []netip.Addr{addr("192.0.2.1")},
		Closed:    []state.ClosedPrefix{{VNI: 0, Prefix: ranges("169.254.0.0/16"), Class: state.ClosedLinkLocal}},
		Services: []state.Service{
			{
				VIP:      addr("10.96.0.1"),
				Port:     443,
				Proto:    state.ProtoTCP,
				Backends: []state.Backend{{IP: addr("192.0.2.2"), Port: 6443}},
			},
		},
		Probes: []state.ProbeTarget{{IP: addr("10.0.1.10"), Shadow: shadow}},
		Hooks:  []state.HookTarget{{IP: addr("10.0.1.10"), Shadow: shadow}},
		Namespaces: []state.Namespace{
			{Cookie: 9, Memberships: []state.Membership{{VNI: 5, Addrs: []netip.Addr{addr("10.0.1.10")}, Ifindex: 7}}},
		},
	}
}

// Clone returns Parts that can be changed, part by part.
func Clone(p state.Parts) state.Parts {
	return state.Parts{VPCs: maps.Clone(p.VPCs), Services: maps.Clone(p.Services)}
}

// Remote returns an address of a VPC that is on another node.
func Remote(vni uint32, ip, node string) state.Address {
	return state.Address{VNI: vni, IP: addr(ip), Kind: state.Remote, Node: addr(node), MAC: remoteMAC}
}

// RandomPart makes a part that contradicts no other one.
func RandomPart(random *rand.Rand, vni uint32) *state.State {
	var s state.State
	some := func(add func(i int)) {
		for i := range 4 {
			if random.IntN(2) == 0 {
				add(i)
			}
		}
	}
	if vni == 0 {
		some(func(i int) { s.Nodes = append(s.Nodes, addr(fmt.Sprintf("192.0.2.%d", i+1))) })
		some(func(i int) { s.Own = append(s.Own, addr(fmt.Sprintf("192.0.2.%d", i+11))) })
		some(func(i int) {
			backends := []state.Backend{{IP: addr("192.0.2.9"), Port: uint16(1 + random.IntN(3))}}
			s.Services = append(
				s.Services,
				state.Service{VIP: addr(fmt.Sprintf("10.96.0.%d", 1+i)), Port: 53, Proto: state.ProtoUDP, Backends: backends},
			)
		})
		some(func(i int) {
			s.Probes = append(s.Probes, state.ProbeTarget{IP: addr(fmt.Sprintf("10.0.2.%d", i)), Shadow: shadow})
		})
		s.Sort()
		return &s
	}
	s.VPCs = []state.VPC{{VNI: vni, EgressMasquerade: random.IntN(2) == 0}}
	some(func(i int) {
		members := []netip.Addr{addr("192.0.2.1"), addr("192.0.2.2")}[:1+random.IntN(2)]
		s.Roles = append(
			s.Roles,
			state.Role{Key: state.RoleKey{VNI: vni, ID: uint32(i + 1)}, Members: members, Here: random.IntN(2) == 0},
		)
	})
	some(func(i int) {
		if len(s.Roles) > 0 {
			s.VPCs[0].Role = s.Roles[0].Key.ID
		}
		s.VPCs[0].Prefixes = append(s.VPCs[0].Prefixes, ranges(fmt.Sprintf("10.%d.0.0/16", i)))
	})
	some(func(i int) {
		s.Addresses = append(
			s.Addresses,
			Remote(vni, fmt.Sprintf("10.0.1.%d", i), fmt.Sprintf("192.0.2.%d", 1+random.IntN(2))),
		)
	})
	some(func(i int) {
		n := state.Subnet{VNI: vni, Prefix: ranges(fmt.Sprintf("10.0.%d.0/24", i))}
		if len(s.Roles) > 0 {
			n.Role = s.Roles[random.IntN(len(s.Roles))].Key.ID
		}
		s.Subnets = append(s.Subnets, n)
	})
	some(func(i int) {
		s.Interfaces = append(
			s.Interfaces,
			state.Interface{
				Ifindex: int(10*vni) + i,
				VNI:     vni,
				MAC:     podMAC,
				Addrs:   []netip.Addr{addr(fmt.Sprintf("10.0.3.%d", i))},

				Identity:      random.Uint32N(1 << 24),
				SendsIdentity: random.IntN(2) == 0,
			},
		)
	})
	s.Sort()
	return &s
}

// RandomServices changes some of the virtual addresses of a VPC.
func RandomServices(random *rand.Rand, vni uint32, last state.VirtualAddresses) state.VirtualAddresses {
	var changes []state.VirtualChange
	for n := range 4 {
		vip := addr(fmt.Sprintf("10.96.0.%d", n+1))
		if last.Get(vip) != nil && random.IntN(2) == 0 {
			continue
		}
		change := state.VirtualChange{IP: vip}
		if random.IntN(2) != 0 {
			change.Now = randomVirtual(random, vni, vip)
		}
		changes = append(changes, change)
	}
	return last.With(changes...)
}

func randomVirtual(random *rand.Rand, vni uint32, vip netip.Addr) *state.VirtualAddress {
	a := &state.VirtualAddress{VNI: vni, IP: vip}
	for port := range 1 + random.IntN(2) {
		s := state.Service{VNI: vni, VIP: vip, Port: uint16(80 + port), Proto: state.ProtoTCP}
		for b := range random.IntN(5) {
			s.Backends = append(
				s.Backends,
				state.Backend{
					IP:      addr(fmt.Sprintf("10.0.3.%d", b+1)),
					Port:    uint16(80 + random.IntN(2)),
					Outside: random.IntN(3) == 0,
				},
			)
		}
		s.LeftOut = len(s.Backends) == 0 && random.IntN(2) == 0
		a.Services = append(a.Services, s)
	}
	return a
}
