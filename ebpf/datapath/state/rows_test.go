// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"net/netip"
	"reflect"
	"testing"
	"time"
)

func TestState_EachList_HasRows(t *testing.T) {
	for i := range reflect.TypeFor[State]().NumField() {
		var s State
		list := reflect.ValueOf(&s).Elem().Field(i)
		list.Set(reflect.MakeSlice(list.Type(), 1, 1))
		if rows := s.Rows(); len(rows) != 1 {
			t.Errorf("a row of %s is %v as text", reflect.TypeOf(s).Field(i).Name, rows)
		}
	}
}

func TestRows_OtherOrder_Equal(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	with := func(addrs []netip.Addr, prefixes []netip.Prefix, backends []Backend) State {
		return State{
			Interfaces: []Interface{{Ifindex: 1, VNI: 20, Addrs: addrs}},
			VPCs:       []VPC{{VNI: 20, Prefixes: prefixes}},
			Roles:      []Role{{Key: RoleKey{20, 1}, Members: addrs}},
			Services:   []Service{{VNI: 20, VIP: a, Port: 80, Proto: ProtoTCP, Backends: backends}},
			Namespaces: []Namespace{{Cookie: 1, Memberships: []Membership{{VNI: 20, Addrs: addrs}}}},
		}
	}
	one := with([]netip.Addr{a, b}, []netip.Prefix{netip.PrefixFrom(a, 24), netip.PrefixFrom(b, 32)}, []Backend{{IP: a, Port: 1}, {IP: b, Port: 1}})
	other := with([]netip.Addr{b, a}, []netip.Prefix{netip.PrefixFrom(b, 32), netip.MustParsePrefix("10.0.0.0/24")}, []Backend{{IP: b, Port: 1}, {IP: a, Port: 1}})
	if first, second := one.Rows(), other.Rows(); !maps.Equal(first, second) {
		t.Errorf("rows\n%v\nand\n%v", first, second)
	}
	if one.Interfaces[0].Addrs[0] != a || other.Interfaces[0].Addrs[0] != b {
		t.Error("the State was changed")
	}
}

func TestRows_OtherContent_OtherText(t *testing.T) {
	ip, shadow := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("100.64.0.1")
	for name, pair := range map[string][2]State{
		"the MAC of an address":       {{Addresses: []Address{{VNI: 20, IP: ip}}}, {Addresses: []Address{{VNI: 20, IP: ip, MAC: VirtualMAC}}}},
		"the shadow of an interface":  {{Interfaces: []Interface{{Ifindex: 1}}}, {Interfaces: []Interface{{Ifindex: 1, Shadow4: shadow}}}},
		"the egress of a VPC":         {{VPCs: []VPC{{VNI: 20}}}, {VPCs: []VPC{{VNI: 20, EgressMasquerade: true}}}},
		"the affinity of a Service":   {{Services: []Service{{VIP: ip}}}, {Services: []Service{{VIP: ip, Affinity: time.Second}}}},
		"endpoints that are left out": {{Services: []Service{{VIP: ip}}}, {Services: []Service{{VIP: ip, LeftOut: true}}}},
		"the place of a backend":      {{Services: []Service{{VIP: ip, Backends: []Backend{{IP: ip}}}}}, {Services: []Service{{VIP: ip, Backends: []Backend{{IP: ip, Outside: true}}}}}},
		"the role of a subnet":        {{Subnets: []Subnet{{VNI: 20}}}, {Subnets: []Subnet{{VNI: 20, Role: 1}}}},
		"the role of a VPC":           {{VPCs: []VPC{{VNI: 20}}}, {VPCs: []VPC{{VNI: 20, Role: 1}}}},
		"the members of a role":       {{Roles: []Role{{}}}, {Roles: []Role{{Members: []netip.Addr{ip}}}}},
		"a member's part":             {{Roles: []Role{{}}}, {Roles: []Role{{Here: true}}}},
		"a member's table":            {{Roles: []Role{{Here: true}}}, {Roles: []Role{{Here: true, Complete: true}}}},
		"the class of a prefix":       {{Closed: []ClosedPrefix{{Class: ClosedNode}}}, {Closed: []ClosedPrefix{{Class: ClosedService}}}},
		"the shadow of a target":      {{Probes: []ProbeTarget{{IP: ip}}}, {Probes: []ProbeTarget{{IP: ip, Shadow: shadow}}}},
		"the shadow of a hook target": {{Hooks: []HookTarget{{IP: ip}}}, {Hooks: []HookTarget{{IP: ip, Shadow: shadow}}}},
		"a namespace that is shared":  {{Namespaces: []Namespace{{Cookie: 1}}}, {Namespaces: []Namespace{{Cookie: 1, Shared: true}}}},
	} {
		if maps.Equal(pair[0].Rows(), pair[1].Rows()) {
			t.Errorf("%s makes no difference: %v", name, pair[0].Rows())
		}
	}
}
