// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Roles: {VNI, ID} -> the members, and the part of this node.
const roleTable = table[bpf.AliothRoleKey, bpf.AliothRole]("roles")

var rolesTable = &descriptor{
	anyTable: completed{roleTable},
	encode: func(t *Rows, p part) {
		if len(p.Roles) == 0 {
			return
		}
		rows, gateways := roleTable.of(t), gatewaysOf(p.State)
		for _, r := range p.Roles {
			row := encodeRole(r)
			row.Gateway = gateways[r.Key]
			rows[bpf.AliothRoleKey{Vni: r.Key.VNI, Id: r.Key.ID}] = row
		}
	},
	decode: func(t *Rows, s *state.State) {
		for key, row := range roleTable.of(t) {
			s.Roles = append(s.Roles, decodeRole(key, row))
		}
	},
}

// encodeRole sorts the members, so that equal roles have equal rows.
func encodeRole(r state.Role) bpf.AliothRole {
	row := bpf.AliothRole{N: uint32(len(r.Members))}
	members := make([]netip.Addr, 0, len(r.Members))
	for _, m := range r.Members {
		members = append(members, m.Unmap())
	}
	slices.SortFunc(members, netip.Addr.Compare)
	for i, m := range members {
		row.Member[i] = bpf.EncodeAddr(m)
	}
	if r.Here {
		row.Flags |= bpf.AliothRoleFlagROLE_HERE
	}
	if r.Complete {
		row.Flags |= bpf.AliothRoleFlagROLE_COMPLETE
	}
	return row
}

// gatewaysOf returns the gateways of the subnets with bouncers, by family.
func gatewaysOf(s *state.State) map[state.RoleKey][bpf.AliothFamilyFAMILY_LEN]bpf.AliothAddr {
	of := map[state.RoleKey][bpf.AliothFamilyFAMILY_LEN]bpf.AliothAddr{}
	for _, a := range s.Addresses {
		if a.Kind != state.Gateway {
			continue
		}
		ip := a.IP.Unmap()
		for _, n := range s.Subnets {
			if n.VNI == a.VNI && n.Role != 0 && n.Prefix.Contains(ip) {
				key := state.RoleKey{VNI: n.VNI, ID: n.Role}
				both := of[key]
				both[bpf.FamilyOf(ipfamily.Of(ip))] = bpf.EncodeAddr(ip)
				of[key] = both
			}
		}
	}
	return of
}

func decodeRole(key bpf.AliothRoleKey, row bpf.AliothRole) state.Role {
	r := state.Role{
		Key:      state.RoleKey{VNI: key.Vni, ID: key.Id},
		Here:     row.Flags&bpf.AliothRoleFlagROLE_HERE != 0,
		Complete: row.Flags&bpf.AliothRoleFlagROLE_COMPLETE != 0,
	}
	for _, m := range row.Member[:min(row.N, state.RoleMembersAtMost)] {
		r.Members = append(r.Members, bpf.DecodeAddr(m))
	}
	return r
}

// completed is the table of roles. A member is complete once its addresses are written.
type completed struct {
	table[bpf.AliothRoleKey, bpf.AliothRole]
}

func (c completed) diff(have, want *Rows) difference {
	return c.table.diff(have, want).delay(func(op Operation) bool {
		return op.Value.(bpf.AliothRole).Flags&bpf.AliothRoleFlagROLE_COMPLETE != 0
	})
}

// guided is a table of ranges whose values are roles, or 0 if the table of this node is
// complete. The rows with 0 are late if own tells so of the row that was there before.
type guided struct {
	table[bpf.AliothPrefixKey, uint32]
	own func(was uint32, known bool) bool
}

func (g guided) diff(have, want *Rows) difference {
	return g.table.diff(have, want).delay(func(op Operation) bool {
		was, known := g.of(have)[op.Key.(bpf.AliothPrefixKey)]
		return op.Value.(uint32) == 0 && g.own(was, known)
	})
}

// delay makes some of the puts late.
func (d difference) delay(late func(Operation) bool) difference {
	all := d.puts
	d.puts = nil
	for _, op := range all {
		if late(op) {
			d.late = append(d.late, op)
		} else {
			d.puts = append(d.puts, op)
		}
	}
	return d
}
