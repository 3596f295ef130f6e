// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/forward/tablesync"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/roles"
)

// member is one of VPC blue, a bouncer of a subnet or with "" a divider.
func member(subnet, node, stage string, revision int64) func(store.Tx) error {
	return func(tx store.Tx) error {
		name := subnet + "." + node
		return roles.PutMember(tx, &roles.Member{
			Meta: store.Meta{UID: name}, Name: name, VPC: "blue", VPCUID: "blue", Subnet: subnet, SubnetUID: subnet,
			Node: node, NodeUID: node, Stage: stage, Revision: revision,
		})
	}
}

// rolesOf are the roles of VPC blue that a plan has: of a subnet by its prefix, and of the
// VPC by "".
func rolesOf(t *testing.T, w whole) map[string]state.Role {
	t.Helper()
	byID, found := map[uint32]state.Role{}, map[string]state.Role{}
	for _, role := range w.Datapath.Roles {
		if role.Key.VNI != 20 || role.Key.ID == 0 || byID[role.Key.ID].Key.ID != 0 {
			t.Errorf("role %+v: want another ID", role.Key)
		}
		byID[role.Key.ID] = role
	}
	add := func(name string, id uint32) {
		if id == 0 {
			return
		}
		role, known := byID[id]
		if !known {
			t.Errorf("%q has a role that there is not", name)
		}
		role.Key = state.RoleKey{}
		found[name] = role
	}
	for _, vpc := range w.Datapath.VPCs {
		add("", vpc.Role)
	}
	for _, subnet := range w.Datapath.Subnets {
		add(subnet.Prefix.String(), subnet.Role)
	}
	return found
}

func TestRoles_LocalTableMissing_MembersUsed(t *testing.T) {
	const blue1 = "10.10.1.0/24"
	everything := tablesync.Table{Members: true, Subnets: true, Addresses: true}
	without := tablesync.Table{Members: true, Subnets: true}
	two := []func(store.Tx) error{
		node("node3", "192.0.2.3"), member("blue1", "node2", roles.Serving, 3), member("blue1", "node3", roles.Serving, 4),
	}
	// node1 and node2 have IPv4 and IPv6, node3 IPv4 alone.
	both := ips("192.0.2.2", "192.0.2.3")
	for name, c := range map[string]struct {
		table tablesync.Table
		rows  []func(store.Tx) error
		want  map[string]state.Role
		// listed is the acknowledged revision; complete are this node's members.
		listed   int64
		complete []string
	}{
		"without roles": {everything, nil, nil, 0, nil},
		"bouncers":      {without, two, map[string]state.Role{blue1: {Members: both}}, 4, nil},
		"bouncers that a node with the whole table needs not": {everything, two, nil, 4, nil},
		"one joins":  {without, append(slices.Clone(two), member("blue1", "node3", roles.Joining, 4)), map[string]state.Role{blue1: {Members: ips("192.0.2.2")}}, 4, nil},
		"one leaves": {without, append(slices.Clone(two), member("blue1", "node3", roles.Leaving, 5)), map[string]state.Role{blue1: {Members: ips("192.0.2.2")}}, 5, nil},
		"all leave, and the table is not here yet": {without, []func(store.Tx) error{
			node("node3", "192.0.2.3"), member("blue1", "node2", roles.Leaving, 5), member("blue1", "node3", roles.Leaving, 6),
		}, map[string]state.Role{blue1: {Members: both}}, 4, nil},
		"all leave, and the table is here": {everything, []func(store.Tx) error{member("blue1", "node2", roles.Leaving, 5)}, nil, 5, nil},
		"no member, and no table":          {without, nil, map[string]state.Role{blue1: {}}, 0, nil},
		"the bouncer is here": {
			tablesync.Table{Members: true, Subnets: true, OfSubnets: map[string]bool{"blue1": true}},
			append(slices.Clone(two), member("blue1", "node1", roles.Joining, 4)),
			map[string]state.Role{blue1: {Members: both, Here: true, Complete: true}},
			4,
			[]string{"blue1.node1"},
		},
		"the bouncer is here and reads its table": {
			without, append(slices.Clone(two), member("blue1", "node1", roles.Serving, 5)),
			map[string]state.Role{blue1: {Members: both, Here: true}},
			5, nil,
		},
		"dividers": {
			tablesync.Table{Members: true, OfSubnets: map[string]bool{"blue1": true}},
			[]func(store.Tx) error{member("", "node2", roles.Serving, 2)},
			map[string]state.Role{"": {Members: ips("192.0.2.2")}},
			2,
			nil,
		},
		"the divider is here": {
			everything,
			[]func(store.Tx) error{member("", "node1", roles.Serving, 2)},
			map[string]state.Role{"": {Here: true, Complete: true}},
			2,
			[]string{".node1"},
		},
		"the divider is here and reads its Subnets": {
			tablesync.Table{Members: true, OfSubnets: map[string]bool{"blue1": true}},
			[]func(store.Tx) error{member("", "node1", roles.Serving, 2)},
			map[string]state.Role{"": {Here: true}},
			2, nil,
		},
		"a member of another VPC of the name": {everything, []func(store.Tx) error{func(tx store.Tx) error {
			return roles.PutMember(tx, &roles.Member{Name: "m", VPC: "blue", VPCUID: "another", SubnetUID: "blue1", Subnet: "blue1", Node: "node1", NodeUID: "node1", Stage: roles.Serving, Revision: 9})
		}}, nil, 0, nil},
		"a member on another Node of the name": {without, []func(store.Tx) error{func(tx store.Tx) error {
			return roles.PutMember(tx, &roles.Member{Name: "m", VPC: "blue", VPCUID: "blue", SubnetUID: "blue1", Subnet: "blue1", Node: "node2", NodeUID: "another", Stage: roles.Serving, Revision: 9})
		}}, map[string]state.Role{blue1: {}}, 9, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := tenants(t)
			w.put(t, c.rows...)
			w.tables = &tablesync.Tables{"default": everything, "red": everything, "blue": c.table}
			got := w.build()
			if diff := cmp.Diff(c.want, rolesOf(t, got), byValue); diff != "" {
				t.Errorf("roles (-want +got):\n%s", diff)
			}
			if got.Roles.Listed["blue"] != c.listed {
				t.Errorf("revision %d is listed, want %d", got.Roles.Listed["blue"], c.listed)
			}
			if diff := cmp.Diff(c.complete, slices.Sorted(maps.Keys(got.Roles.Complete)), byValue); diff != "" {
				t.Errorf("complete members (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRoles_MemberWithoutInterface_HasVPC: it forwards packets of others.
func TestRoles_MemberWithoutInterface_HasVPC(t *testing.T) {
	w := newWorld(t,
		node("node1", "192.0.2.1"), node("node2", "192.0.2.2"), vpc("blue", 20, "10.10.0.0/16"), subnet("blue1", "blue", 1, true, "10.10.1.0/24", "10.10.1.1"),
		func(tx store.Tx) error {
			return store.PutAddress(tx, &store.Address{
				Meta: store.Meta{UID: "a"}, Name: "blue.10.10.1.11", VPC: "blue", Subnet: "blue1", IP: ip("10.10.1.11"), MAC: "02:00:00:00:01:01",
				Node: "node2", Holder: store.Holder{Kind: store.HolderPod, Namespace: "blue", Name: "b2", UID: "b2"},
			})
		},
	)
	w.tables = &tablesync.Tables{"blue": {Members: true, Subnets: true, OfSubnets: map[string]bool{"blue1": true}}}
	if got := w.build(); len(got.Datapath.VPCs) > 0 {
		t.Errorf("a node without interface or role has %v", got.Datapath.VPCs)
	}
	w.put(t, member("blue1", "node1", roles.Joining, 1))
	got := w.build()
	if len(got.Datapath.VPCs) != 1 || got.Datapath.VPCs[0].VNI != 20 || len(got.Datapath.Interfaces) > 0 {
		t.Errorf("a bouncer has the VPCs %v and the interfaces %v, want VPC 20 alone", got.Datapath.VPCs, got.Datapath.Interfaces)
	}
	if !slices.ContainsFunc(got.Datapath.Addresses, func(a state.Address) bool {
		return a.IP == ip("10.10.1.11") && a.Kind == state.Remote && a.Node == ip("192.0.2.2")
	}) {
		t.Errorf("a bouncer has the addresses %v, want that of node2", got.Datapath.Addresses)
	}
	w.put(t, func(tx store.Tx) error {
		open := *store.GetVPC(tx, "blue")
		open.AllowedTenants = []string{"*"}
		return store.PutVPC(tx, &open)
	}, func(tx store.Tx) error {
		return store.PutNetwork(tx, &store.Network{Meta: store.Meta{UID: "n"}, Namespace: "shop", Name: "default", Tenant: "ns:shop", Type: "vpc", VPC: "blue"})
	}, func(tx store.Tx) error {
		return store.PutNamespace(tx, &store.Namespace{Meta: store.Meta{UID: "shop"}, Name: "shop", Tenant: "ns:shop"})
	}, service("shop", "web", []string{"10.96.0.9"}, store.ServicePort{Protocol: "TCP", Port: 80}))
	if list := w.build().Datapath.Services; len(list) > 0 {
		t.Errorf("a node that only forwards has the Services %v", list)
	}
	w.attach("blue", 20, "b1", "10.10.1.10/24")
	if list := w.build().Datapath.Services; len(list) != 1 {
		t.Errorf("a node with a pod has the Services %v, want one", list)
	}
	w.records = nil
	w.store.View(func(tx store.ReadTx) {
		parts := Build(tx, w.input()).Datapath
		if err := parts.Validate(parts.Everything(), state.Parts{}); err != nil {
			t.Error(err)
		}
	})
	w.put(t, func(tx store.Tx) error { roles.DeleteMember(tx, "blue1.node1", "blue1.node1"); return nil })
	if got := w.build(); len(got.Datapath.VPCs) > 0 {
		t.Errorf("a former bouncer has %v", got.Datapath.VPCs)
	}
}

func TestCommonTables_TwoTables_IntersectionFound(t *testing.T) {
	of := func(names ...string) map[string]bool {
		m := map[string]bool{}
		for _, name := range names {
			m[name] = true
		}
		return m
	}
	a := &tablesync.Tables{
		"gone": {Subnets: true}, "whole": {Members: true, Subnets: true, Addresses: true},
		"narrowed": {Subnets: true, Addresses: true}, "some": {OfSubnets: of("a", "b")},
	}
	b := &tablesync.Tables{
		"new": {Subnets: true}, "whole": {Members: true, Subnets: true, Addresses: true},
		"narrowed": {OfSubnets: of("a")}, "some": {OfSubnets: of("b", "c")},
	}
	want := &tablesync.Tables{"whole": {Members: true, Subnets: true, Addresses: true}, "narrowed": {OfSubnets: of("a")}, "some": {OfSubnets: of("b")}}
	for _, got := range []*tablesync.Tables{tablesync.Common(a, b), tablesync.Common(b, a)} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("common (-want +got):\n%s", diff)
		}
	}
	if tablesync.Common(a, a) != a || tablesync.Common(nil, a) != a {
		t.Error("the same tables are not their own")
	}
}
