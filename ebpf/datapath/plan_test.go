// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// smallState has one of everything.
func smallState() state.State {
	return state.State{
		VPCs:    []state.VPC{{VNI: 5, Prefixes: []netip.Prefix{px("10.0.0.0/16")}, EgressMasquerade: true}},
		Subnets: []state.Subnet{{VNI: 5, Prefix: px("10.0.1.0/24")}},
		Interfaces: []state.Interface{{
			Ifindex: 7, VNI: 5, MAC: macA, Addrs: []netip.Addr{ip("10.0.1.10")}, Shadow4: ip(shadowA),
		}},
		Addresses:  []state.Address{{VNI: 5, IP: ip("10.0.1.10"), Kind: state.Local, Ifindex: 7, MAC: macA}},
		Nodes:      []netip.Addr{ip("192.0.2.2")},
		Closed:     []state.ClosedPrefix{{VNI: 0, Prefix: px("169.254.0.0/16"), Class: state.ClosedLinkLocal}},
		Services:   []state.Service{{VIP: ip("10.96.0.1"), Port: 443, Proto: state.ProtoTCP, Backends: []state.Backend{{IP: ip("192.0.2.2"), Port: 6443}}}},
		Probes:     []state.ProbeTarget{{IP: ip("10.0.1.10"), Shadow: ip(shadowA)}},
		Hooks:      []state.HookTarget{{IP: ip("10.0.1.10"), Shadow: ip(shadowA)}},
		Namespaces: []state.Namespace{{Cookie: 9, Memberships: []state.Membership{{VNI: 5, Addrs: []netip.Addr{ip("10.0.1.10")}, Ifindex: 7}}}},
	}
}

// steps renders a plan without its keys.
func steps(plan []operation) []string {
	var out []string
	for _, op := range plan {
		verb := "put "
		if op.Delete {
			verb = "delete "
		}
		out = append(out, verb+op.Table)
	}
	return out
}

func TestPlansKeepTheOrderThatOpensNothingAndLosesNothing(t *testing.T) {
	withBackends := func(s state.State, b ...state.Backend) state.State {
		s.Services = []state.Service{{VIP: ip("10.96.0.1"), Port: 443, Proto: state.ProtoTCP, Backends: b}}
		return s
	}
	for _, c := range []struct {
		name       string
		have, want state.State
		steps      []string
	}{
		{
			name: "from nothing", want: smallState(),
			steps: []string{
				"put closed", "put vpc_ranges", "put subnets", "put nodes", "put vpcs",
				"put backends", "put services", "put services",
				"put interfaces", "put flows", "put attachments", "put attachments",
				"put addresses", "put targets", "put targets", "put netns",
			},
		},
		{
			name: "to nothing", have: smallState(),
			steps: []string{
				"delete addresses", "delete targets", "delete targets", "delete netns", "delete nodes",
				"delete services", "delete services", "delete backends",
				"delete flows", "delete interfaces",
				"delete vpcs", "delete subnets", "delete vpc_ranges", "delete closed",
			},
		},
		{name: "to the same", have: smallState(), want: smallState()},
		{
			name: "a service's backends change", have: smallState(),
			want: withBackends(smallState(), state.Backend{IP: ip("192.0.2.3"), Port: 6443}, state.Backend{IP: ip("192.0.2.2"), Port: 6443}),
			steps: []string{
				"put backends", "put backends", "put maglev", "put maglev", "put choices", "put services", "delete backends",
			},
		},
		{
			name: "a service's backends are listed in another order",
			have: withBackends(smallState(), state.Backend{IP: ip("192.0.2.3"), Port: 6443}, state.Backend{IP: ip("192.0.2.2"), Port: 6443}),
			want: withBackends(smallState(), state.Backend{IP: ip("192.0.2.2"), Port: 6443}, state.Backend{IP: ip("192.0.2.3"), Port: 6443}),
		},
		{
			name: "a service's clients keep their backend from now on", have: smallState(),
			want: func() state.State {
				s := smallState()
				s.Services[0].Affinity = time.Hour
				return s
			}(),
			steps: []string{"put choices"},
		},
		{
			name: "a service loses all backends", have: smallState(), want: withBackends(smallState()),
			steps: []string{"put services", "delete backends"},
		},
		{
			name: "an address moves to another node", have: smallState(),
			want: func() state.State {
				s := smallState()
				s.Interfaces, s.Probes, s.Hooks, s.Namespaces = nil, nil, nil, nil
				s.Addresses = []state.Address{{VNI: 5, IP: ip("10.0.1.10"), Kind: state.Remote, Node: ip("192.0.2.2"), MAC: macA}}
				return s
			}(),
			steps: []string{"delete targets", "delete targets", "delete netns", "put addresses", "delete flows", "delete interfaces"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := compile(c.have, newTables())
			plan := makePlan(have, compile(c.want, have))
			if d := cmp.Diff(c.steps, steps(plan)); d != "" {
				t.Errorf("steps (-want +got):\n%s", d)
			}
			if again := makePlan(have, compile(c.want, have)); !cmp.Equal(plan, again, cmp.AllowUnexported(operation{})) {
				t.Error("the same plan has another order the second time")
			}
		})
	}
}

func TestAChangedServiceNeverReusesTheIDOfAnother(t *testing.T) {
	have := compile(smallState(), newTables())
	// What is left of a service whose removal was interrupted counts as well.
	backendTable.of(have)[aliothBackendKey{Service: 9}] = aliothBackend{}
	have.nextID = 0 // as read from the maps
	s := smallState()
	s.Services[0].Backends[0].Port = 6444
	s.Services = append(s.Services, state.Service{VIP: ip("10.96.0.2"), Port: 443, Proto: state.ProtoTCP})
	want := compile(s, have)
	var ids []uint32
	for key, row := range serviceTable.of(want) {
		if key.Port != 0 {
			ids = append(ids, row.Id)
		}
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []uint32{10, 11}) {
		t.Errorf("ids are %v, want 10 and 11", ids)
	}
}

func TestRowsGiveBackTheStateTheyComeFrom(t *testing.T) {
	s := smallState()
	s.VPCs[0].Prefixes = append(s.VPCs[0].Prefixes, px("fd10::/48"))
	s.Subnets = append(s.Subnets, state.Subnet{VNI: 5, Prefix: px("fd10:0:0:1::/64")}, state.Subnet{VNI: 5, Prefix: px("0.0.0.0/0")})
	s.Interfaces[0].Addrs = append(s.Interfaces[0].Addrs, ip("fd10:0:0:1::10"))
	s.Interfaces[0].Shadow6 = ip(shadowA6)
	s.Sort()
	got := compile(s, newTables()).state()
	if d := cmp.Diff(s, got, sameAddr); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
}

// refusal says why a State is refused, nil where it is not.
func refusal(s state.State) error {
	p := s.Parts()
	return p.Validate(p.Everything(), state.Parts{})
}

func TestStatesThatContradictThemselvesAreRefused(t *testing.T) {
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
		{"more backends than there may be", func(s *state.State) {
			s.Services[0].Backends = slices.Repeat(s.Services[0].Backends, state.MaxBackends+1)
		}, "1001 backends"},
		{"a service of another protocol", func(s *state.State) { s.Services[0].Proto = 132 }, "not TCP or UDP"},
		{"a service without port", func(s *state.State) { s.Services[0].Port = 0 }, "port is missing"},
		{"a backend of another family", func(s *state.State) { s.Services[0].Backends[0].IP = ip("fd00::1") }, "another family"},
		{"a backend outside of a VPC, for a service of none", func(s *state.State) { s.Services[0].Backends[0].Outside = true }, "service is of none"},
		{"a service twice", func(s *state.State) { s.Services = append(s.Services, s.Services[0]) }, "given twice"},
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
			s := smallState()
			c.change(&s)
			err := refusal(s)
			if !errors.Is(err, state.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want ErrInvalidState with %q", err, c.want)
			}
		})
	}
	if err := refusal(smallState()); err != nil {
		t.Errorf("a sound state is refused: %v", err)
	}
}
