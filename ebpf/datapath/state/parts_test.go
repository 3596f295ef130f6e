// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/state/statetest"
)

var (
	ip = netip.MustParseAddr
	px = netip.MustParsePrefix

	macB  = state.MAC{2, 0, 0, 0, 0, 0xb}
	bcast = state.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
)

const shadowA6 = "fd00:a110::10"

// lan is the number of a network outside of every VPC.
const lan = 1<<24 + 3

func TestState_Parts_AddUp(t *testing.T) {
	s := statetest.Small()
	s.VPCs = append(s.VPCs, state.VPC{VNI: 6, Prefixes: []netip.Prefix{px("10.0.0.0/16")}})
	s.Roles = append(roles(6, 1, "192.0.2.2"), roles(6, 2)...)
	s.VPCs[1].Role = 2
	s.Subnets = append(s.Subnets, state.Subnet{VNI: 6, Prefix: px("10.0.1.0/24"), Role: 1})
	s.Addresses = append(s.Addresses, statetest.Remote(6, "10.0.1.10", "192.0.2.2"))
	for _, vip := range []string{"fd00:96::1", "10.96.0.9", "10.96.0.2"} {
		for _, port := range []uint16{80, 443} {
			s.Services = append(s.Services, state.Service{VNI: 6, VIP: ip(vip), Port: port, Proto: state.ProtoTCP})
		}
	}
	s.Sort()
	p := s.Parts()
	var addresses []string
	for _, a := range p.Everything().Is {
		addresses = append(addresses, fmt.Sprint(a.VNI, a.IP, len(a.Services)))
	}
	if d := cmp.Diff([]string{"6 10.96.0.2 2", "6 10.96.0.9 2", "6 fd00:96::1 2"}, addresses); d != "" {
		t.Errorf("virtual addresses (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]uint32{0, 5, 6}, p.Everything().VNIs); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
	if d := cmp.Diff(s, p.State(), statetest.SameAddr); d != "" {
		t.Errorf("together (-want +got):\n%s", d)
	}
}

// virtual returns addresses of a VPC with a service each.
func virtual(vni uint32, addrs ...string) []*state.VirtualAddress {
	var list []*state.VirtualAddress
	for _, addr := range addrs {
		list = append(list, &state.VirtualAddress{VNI: vni, IP: ip(addr), Services: []state.Service{{VNI: vni, VIP: ip(addr), Port: 80, Proto: state.ProtoTCP}}})
	}
	return list
}

// listed returns a list with these elements.
func listed(list ...*state.VirtualAddress) state.VirtualAddresses {
	return state.VirtualAddressesOf(list...)
}

// roles returns one role with these members.
func roles(vni, id uint32, members ...string) []state.Role {
	r := state.Role{Key: state.RoleKey{VNI: vni, ID: id}}
	for _, m := range members {
		r.Members = append(r.Members, ip(m))
	}
	return []state.Role{r}
}

func TestParts_Contradictory_Refused(t *testing.T) {
	other := func() *state.State {
		return &state.State{VPCs: []state.VPC{{VNI: 6}}, Interfaces: []state.Interface{{
			Ifindex: 8, VNI: 6, MAC: macB, Addrs: []netip.Addr{ip("10.0.1.10")}, Shadow4: ip("169.254.64.11"),
		}}}
	}
	for name, c := range map[string]struct {
		change func(state.Parts)
		sound  bool
	}{
		"sound":                    {func(state.Parts) {}, true},
		"a device of two VPCs":     {func(p state.Parts) { p.VPCs[6].Interfaces[0].Ifindex = 7 }, false},
		"a shadow of two VPCs":     {func(p state.Parts) { p.VPCs[6].Interfaces[0].Shadow4 = ip("169.254.64.10") }, false},
		"a namespace without VPC":  {func(p state.Parts) { delete(p.VPCs, 5) }, false},
		"rows in another's part":   {func(p state.Parts) { p.VPCs[6].Subnets = []state.Subnet{{VNI: 5, Prefix: px("10.0.1.0/24")}} }, false},
		"a VPC in the part of all": {func(p state.Parts) { p.VPCs[0].VPCs = []state.VPC{{VNI: 7}} }, false},
		"services of no VPC":       {func(p state.Parts) { p.Services[7] = listed(virtual(7, "10.96.0.1")...) }, false},
		"services of a VPC":        {func(p state.Parts) { p.Services[6] = listed(virtual(6, "10.96.0.1", "10.96.0.2")...) }, true},
		"its own VPC goes":         {func(p state.Parts) { p.Services[5] = listed(virtual(5, "10.96.0.1")...); p.VPCs[5] = &state.State{} }, false},
		"another's services":       {func(p state.Parts) { p.Services[6] = listed(virtual(5, "10.96.0.1")...) }, false},
		"services without order":   {func(p state.Parts) { p.Services[6] = listed(virtual(6, "10.96.0.2", "10.96.0.1")...) }, false},
		"an address twice":         {func(p state.Parts) { p.Services[6] = listed(virtual(6, "10.96.0.1", "10.96.0.1")...) }, false},
		"a mapped address":         {func(p state.Parts) { p.Services[6] = listed(virtual(6, "::ffff:10.96.0.1")...) }, false},
		"another address's": {func(p state.Parts) {
			p.Services[6] = listed(virtual(6, "10.96.0.1")...)
			p.Services[6].Get(ip("10.96.0.1")).IP = ip("10.96.0.2")
		}, false},
		"an address without ports": {func(p state.Parts) { p.Services[6] = listed(&state.VirtualAddress{VNI: 6, IP: ip("10.96.0.1")}) }, false},
		"a port twice": {func(p state.Parts) {
			p.Services[6] = listed(virtual(6, "10.96.0.1")...)
			a := p.Services[6].Get(ip("10.96.0.1"))
			a.Services = slices.Repeat(a.Services, 2)
		}, false},
		"services in a VPC's part": {func(p state.Parts) { p.VPCs[6].Services = virtual(6, "10.96.0.1")[0].Services }, false},
		"another's role":           {func(p state.Parts) { p.VPCs[6].Roles = roles(5, 1, "192.0.2.2") }, false},
		"the ID of another's role": {func(p state.Parts) { p.VPCs[6].Roles = roles(6, 1, "192.0.2.2") }, true},
		"nodes in a VPC's part":    {func(p state.Parts) { p.VPCs[6].Nodes = []netip.Addr{ip("192.0.2.9")} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			last := statetest.Small().Parts()
			last.VPCs[6] = other()
			now := statetest.Clone(last)
			now.VPCs[0], now.VPCs[6] = &state.State{}, other()
			*now.VPCs[0] = *last.VPCs[0]
			c.change(now)
			err := now.Validate(now.Since(last), last)
			if c.sound != (err == nil) || !c.sound && !errors.Is(err, state.ErrInvalid) {
				t.Errorf("error is %v, want none: %v", err, c.sound)
			}
		})
	}
}

// TestList_Changed_CheckedAsWhole has lists with mostly old elements, in any order and of
// any VNI.
func TestList_Changed_CheckedAsWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 20_000 {
		last := state.Parts{VPCs: map[uint32]*state.State{6: {VPCs: []state.VPC{{VNI: 6}}}}}
		last.Services = map[uint32]state.VirtualAddresses{6: listed(virtual(6, "10.96.0.1", "10.96.0.3", "10.96.0.5", "10.96.0.7")...)}
		now := last
		list := slices.Collect(last.Services[6].All())
		for range 1 + random.IntN(3) {
			at := random.IntN(len(list))
			switch random.IntN(5) {
			case 0:
				list = slices.Insert(list, at, virtual(6, fmt.Sprintf("10.96.0.%d", random.IntN(10)))...)
			case 1:
				list[at] = virtual(6, fmt.Sprintf("10.96.0.%d", random.IntN(10)))[0]
			case 2:
				other := random.IntN(len(list))
				list[at], list[other] = list[other], list[at]
			case 3:
				list = slices.Insert(list, at, virtual(5, fmt.Sprintf("10.96.0.%d", random.IntN(10)))...)
			case 4:
				if len(list) > 1 {
					list = slices.Delete(list, at, at+1)
				}
			}
		}
		now.Services = map[uint32]state.VirtualAddresses{6: listed(list...)}
		whole := now.Validate(now.Everything(), state.Parts{})
		changed := now.Validate(now.Since(last), last)
		if (whole == nil) != (changed == nil) {
			t.Fatalf("list %v: the changes give the error %v, the whole %v", list, changed, whole)
		}
		sound := true
		for i, a := range list {
			sound = sound && a.VNI == 6 && (i == 0 || list[i-1].IP.Less(a.IP))
		}
		if sound != (whole == nil) {
			t.Fatalf("list %v gives the error %v", list, whole)
		}
		if !sound {
			refused++
		}
	}
	if refused < 1000 || refused > 19_000 {
		t.Errorf("%d of 20,000 lists were refused: the lists are too much alike", refused)
	}
}

// refusal returns why a State is refused, nil where it is not.
func refusal(s state.State) error {
	p := s.Parts()
	return p.Validate(p.Everything(), state.Parts{})
}

// healthy adds faultless rows of a VPC.
func healthy(s *state.State) {
	s.VPCs = append(s.VPCs, state.VPC{VNI: 9, Prefixes: []netip.Prefix{px("10.9.0.0/16")}})
	s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: 98, VNI: 9, MAC: macB, Addrs: []netip.Addr{ip("10.9.0.5")}, Shadow4: ip("169.254.64.99")})
	s.Addresses = append(
		s.Addresses,
		state.Address{
			VNI:     9,
			IP:      ip("10.9.0.5"),
			Kind:    state.Local,
			Ifindex: 98,
		},
		state.Address{VNI: 9, IP: ip("10.9.0.6"), Kind: state.Remote, Node: ip("192.0.2.9")},
	)
	s.Subnets = append(s.Subnets, state.Subnet{VNI: 9, Prefix: px("10.9.0.0/24")})
	s.Nodes = append(s.Nodes, ip("192.0.2.9"))
	s.Services = append(s.Services, state.Service{VNI: 9, VIP: ip("10.96.9.9"), Port: 80, Proto: state.ProtoTCP})
	s.Namespaces = append(s.Namespaces, state.Namespace{Cookie: 99, Memberships: []state.Membership{{VNI: 9, Ifindex: 98, Addrs: []netip.Addr{ip("10.9.0.5")}}}})
	s.Probes = append(s.Probes, state.ProbeTarget{IP: ip("10.9.0.5"), Shadow: ip("169.254.64.99")})
}

// checkSound adds healthy rows to a State with a contradiction. Sound has to leave out
// something, and no healthy row; where a destination is not closed any more, its VPC must
// have no egress.
func checkSound(t *testing.T, s state.State) {
	t.Helper()
	healthy(&s)
	var own state.State
	healthy(&own)
	before := s.Parts()
	now, left := before.Sound()
	if err := now.Validate(now.Everything(), state.Parts{}); err != nil || len(left) == 0 {
		t.Errorf("%d rows are left out, and the rest gives the error %v", len(left), err)
	}
	rows := now.State().Rows()
	for key, content := range own.Rows() {
		if content = strings.ReplaceAll(content, "EgressMasquerade:true", "EgressMasquerade:false"); rows[key] != content {
			t.Errorf("the healthy row %s is %q, and was %q; left out: %v", key, rows[key], content, left)
		}
	}
	closing := func(list []state.ClosedPrefix, vni uint32) int {
		return len(slices.DeleteFunc(slices.Clone(list), func(p state.ClosedPrefix) bool { return p.VNI != 0 && p.VNI != vni }))
	}
	for _, v := range now.State().VPCs {
		if v.EgressMasquerade && closing(now.State().Closed, v.VNI) < closing(s.Closed, v.VNI) {
			t.Errorf("VNI %d has egress although a closed destination is left out: %v", v.VNI, left)
		}
	}
}

func TestState_Contradictory_Refused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*state.State)
		want   string // part of the error
	}{
		{"no VNI", func(s *state.State) { s.VPCs[0].VNI = 0 }, "VNI 0 of a VPC"},
		{"a VNI beyond 24 bits", func(s *state.State) { s.VPCs = append(s.VPCs, state.VPC{VNI: 1 << 24}) }, "not in 1 to"},
		{"a VPC twice", func(s *state.State) { s.VPCs = append(s.VPCs, s.VPCs[0]) }, "VPC of VNI 5 is given twice"},
		{"an unmasked prefix", func(s *state.State) { s.Subnets[0].Prefix = px("10.0.1.1/24") }, "it is 10.0.1.0/24"},
		{"a prefix over the mapped range", func(s *state.State) { s.Closed[0].Prefix = px("::/0") }, "IPv4-mapped"},
		{"a mapped prefix", func(s *state.State) { s.Closed[0].Prefix = px("::ffff:10.0.0.0/104") }, "not valid"},
		{"a subnet of no VPC", func(s *state.State) { s.Subnets[0].VNI = 6 }, "no VPC of this state"},
		{"a subnet twice", func(s *state.State) { s.Subnets = append(s.Subnets, s.Subnets[0]) }, "given twice"},
		{"a role without an ID", func(s *state.State) { s.Roles = roles(5, 0, "192.0.2.2") }, "no ID"},
		{"a role of no VPC", func(s *state.State) { s.Roles = roles(6, 1, "192.0.2.2") }, "no VPC of this state"},
		{"a role twice", func(s *state.State) {
			s.Roles = append(roles(5, 1, "192.0.2.2"), roles(5, 1, "192.0.2.3")...)
		}, "given twice"},
		{"a member twice", func(s *state.State) { s.Roles = roles(5, 1, "192.0.2.2", "::ffff:192.0.2.2") }, "member 192.0.2.2 is given twice"},
		{"a member that is none", func(s *state.State) { s.Roles = roles(5, 1, "0.0.0.0") }, "no plain address"},
		{"more members than there may be", func(s *state.State) {
			s.Roles = []state.Role{{Key: state.RoleKey{VNI: 5, ID: 1}, Members: make([]netip.Addr, state.RoleMembersAtMost+1)}}
		}, "65 members"},
		{"a subnet with an unknown role", func(s *state.State) { s.Roles, s.Subnets[0].Role = roles(5, 1, "192.0.2.2"), 2 }, "refers to role 2"},
		{"a VPC with an unknown role", func(s *state.State) { s.VPCs[0].Role = 1 }, "refers to role 1"},
		{"a device index of 0", func(s *state.State) { s.Interfaces[0].Ifindex = 0 }, "device index 0"},
		{"an interface twice", func(s *state.State) { s.Interfaces = append(s.Interfaces, s.Interfaces[0]) }, "interface 7 is given twice"},
		{"an interface of no VPC", func(s *state.State) { s.Interfaces[0].VNI = 4 }, "no VPC of this state"},
		{"an interface without address", func(s *state.State) { s.Interfaces[0].Addrs = nil }, "no address"},
		{"two addresses of a family", func(s *state.State) {
			s.Interfaces[0].Addrs = []netip.Addr{ip("10.0.1.10"), ip("10.0.1.11")}
		}, "second of its family"},
		{"no MAC", func(s *state.State) { s.Interfaces[0].MAC = state.MAC{} }, "no address of one station"},
		{"a group's MAC", func(s *state.State) { s.Interfaces[0].MAC = bcast }, "no address of one station"},
		{"a netkit pair for the node", func(s *state.State) { s.Interfaces[0].Node, s.Interfaces[0].Netkit = true, true }, "no netkit pair"},
		{"an identity of 25 bits", func(s *state.State) { s.Interfaces[0].Identity = 1 << 24 }, "identity 16777216"},
		{"a shadow without address", func(s *state.State) { s.Interfaces[0].Shadow6 = ip(shadowA6) }, "does not belong"},
		{"a shadow of the other family", func(s *state.State) { s.Interfaces[0].Shadow4 = ip(shadowA6) }, "does not belong"},
		{"a shadow of the node's interface", func(s *state.State) { s.Interfaces[0].Node = true }, "does not belong"},
		{"a shadow twice", func(s *state.State) {
			i := s.Interfaces[0]
			i.Ifindex, i.Addrs = 8, []netip.Addr{ip("10.0.1.11")}
			s.Interfaces = append(s.Interfaces, i)
		}, "shadow 169.254.64.10 is given twice"},
		{"an address twice", func(s *state.State) { s.Addresses = append(s.Addresses, s.Addresses[0]) }, "given twice"},
		{"an address twice, once mapped", func(s *state.State) {
			a := s.Addresses[0]
			a.IP = netip.AddrFrom16(a.IP.As16())
			s.Addresses = append(s.Addresses, a)
		}, "given twice"},
		{"a local address of no interface", func(s *state.State) { s.Addresses[0].Ifindex = 8 }, "device 8 is no interface"},
		{"a remote address without node", func(s *state.State) { s.Addresses[0].Kind = state.Remote }, "node"},
		{"an address of no kind", func(s *state.State) { s.Addresses[0].Kind = 0 }, "kind 0"},
		{"an address with a zone", func(s *state.State) { s.Addresses[0].IP = ip("fe80::1%eth0") }, "no plain address"},
		{"a node twice", func(s *state.State) { s.Nodes = append(s.Nodes, s.Nodes[0]) }, "node 192.0.2.2 is given twice"},
		{"a node that is none", func(s *state.State) { s.Nodes[0] = netip.Addr{} }, "no plain address"},
		{"an own address twice", func(s *state.State) { s.Own = append(s.Own, s.Own[0]) }, "own address 192.0.2.1 is given twice"},
		{"an own address that is none", func(s *state.State) { s.Own[0] = netip.Addr{} }, "no plain address"},
		{"a closed prefix of no class", func(s *state.State) { s.Closed[0].Class = 0 }, "unknown class"},
		{"a closed prefix twice", func(s *state.State) { s.Closed = append(s.Closed, s.Closed[0]) }, "given twice"},
		{"an exception for every VPC", func(s *state.State) { s.Closed[0].VNI, s.Closed[0].Class = 0, state.OpenListed }, "an exception belongs to one"},
		{"all of IPv6 closed, and IPv4 not named", func(s *state.State) {
			s.Closed = append(s.Closed, state.ClosedPrefix{VNI: 5, Prefix: px("::/0"), Class: state.ClosedDenied})
		}, "IPv4-mapped range"},
		{"a closed prefix of no VPC", func(s *state.State) { s.Closed[0].VNI = 6 }, "no VPC of this state"},
		{"a service of no VPC", func(s *state.State) { s.Services[0].VNI = 6 }, "no VPC of this state"},
		{"an affinity of parts of a second", func(s *state.State) { s.Services[0].Affinity = time.Millisecond }, "whole seconds"},
		{"an affinity of days", func(s *state.State) { s.Services[0].Affinity = 25 * time.Hour }, "24h0m0s"},
		{"backends and endpoints that are left out", func(s *state.State) { s.Services[0].LeftOut = true }, "left out"},
		{"more backends than there may be", func(s *state.State) {
			s.Services[0].Backends = slices.Repeat(s.Services[0].Backends, state.MaxBackends+1)
		}, "1001 backends"},
		{"a service of another protocol", func(s *state.State) { s.Services[0].Proto = 132 }, "not TCP or UDP"},
		{"a service without port", func(s *state.State) { s.Services[0].Port = 0 }, "port is missing"},
		{"a backend of another family", func(s *state.State) { s.Services[0].Backends[0].IP = ip("fd00::1") }, "another family"},
		{"a backend outside of a VPC, for a service of none", func(s *state.State) { s.Services[0].Backends[0].Outside = true }, "service is of none"},
		{"a service twice", func(s *state.State) { s.Services = append(s.Services, s.Services[0]) }, "given twice"},
		{"a backend outside of a VPC, for a service of a network outside", func(s *state.State) {
			s.Services[0].VNI, s.Services[0].Backends[0].Outside = lan, true
		}, "service is of none"},
		{"a VPC with the number of a network outside", func(s *state.State) { s.VPCs = append(s.VPCs, state.VPC{VNI: lan}) }, "is not in 1 to 16777215"},
		{"an interface with programs in a network outside", func(s *state.State) {
			s.Interfaces = append(s.Interfaces, state.Interface{Ifindex: 99, VNI: lan, MAC: macB, Addrs: []netip.Addr{ip("192.168.0.5")}})
		}, "no VPC of this state"},
		{"an address of a network outside", func(s *state.State) { s.Addresses[0].VNI = lan }, "no VPC of this state"},
		{"a node port of a network outside", func(s *state.State) {
			s.NodePorts = append(s.NodePorts, state.NodePort{VNI: lan, Port: 30080, Proto: state.ProtoTCP, Family: ipfamily.IPv4})
		}, "no VPC of this state"},
		{"a node port without a family", func(s *state.State) {
			s.NodePorts = append(s.NodePorts, state.NodePort{VNI: s.VPCs[0].VNI, Port: 30080, Proto: state.ProtoTCP})
		}, "is of no family"},
		{"a network outside with a host end", func(s *state.State) { s.Namespaces[0].Memberships[0].VNI = lan }, "such an interface has none"},
		{"a namespace without a cookie", func(s *state.State) { s.Namespaces[0].Cookie = 0 }, "no cookie"},
		{"a namespace twice", func(s *state.State) { s.Namespaces = append(s.Namespaces, s.Namespaces[0]) }, "given twice"},
		{"a namespace in no VPC", func(s *state.State) { s.Namespaces[0].Memberships = nil }, "0 interfaces"},
		{
			"a namespace with too many interfaces",
			func(s *state.State) {
				s.Namespaces[0].Memberships = slices.Repeat(s.Namespaces[0].Memberships, state.MaxMemberships+1)
			}, "9 interfaces",
		},
		{"a namespace in an unknown VPC", func(s *state.State) { s.Namespaces[0].Memberships[0].VNI = 6 }, "no VPC of this state"},
		{
			"a namespace with two addresses of a family",
			func(s *state.State) {
				s.Namespaces[0].Memberships[0].Addrs = []netip.Addr{ip("10.0.1.10"), ip("10.0.1.11")}
			}, "second one",
		},
		{"a probe of another family", func(s *state.State) { s.Probes[0].Shadow = ip(shadowA6) }, "different families"},
		{"a probe twice", func(s *state.State) { s.Probes = append(s.Probes, s.Probes[0]) }, "given twice"},
		{"a hook twice", func(s *state.State) { s.Hooks = append(s.Hooks, s.Hooks[0]) }, "given twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := statetest.Small()
			c.change(&s)
			err := refusal(s)
			if !errors.Is(err, state.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want ErrInvalidState with %q", err, c.want)
			}
			checkSound(t, s)
		})
	}
	outside := statetest.Small()
	outside.Services[0].VNI = lan
	outside.Namespaces[0].Memberships = append(outside.Namespaces[0].Memberships, state.Membership{VNI: lan, Addrs: []netip.Addr{ip("192.168.0.5")}})
	if err := refusal(outside); err != nil {
		t.Errorf("a network outside of every VPC is refused: %v", err)
	}
	if err := refusal(statetest.Small()); err != nil {
		t.Errorf("a sound state is refused: %v", err)
	}
	if now, left := statetest.Small().Parts().Sound(); len(left) > 0 || !reflect.DeepEqual(now.State().Rows(), statetest.Small().Rows()) {
		t.Errorf("of a sound state these are left out: %v", left)
	}
}
