// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Targets: {scope, ip} -> shadow, for connects of the kubelet.
const targetTable = table[bpf.AliothTargetKey, bpf.AliothAddr]("targets")

var targetsTable = &descriptor{
	anyTable: targetTable,
	encode: func(t *Rows, p part) {
		rows := targetTable.of(t)
		for _, probe := range p.Probes {
			rows[bpf.AliothTargetKey{Ip: bpf.EncodeAddr(probe.IP)}] = bpf.EncodeAddr(probe.Shadow)
		}
		for _, hook := range p.Hooks {
			rows[bpf.AliothTargetKey{Scope: bpf.AliothTargetScopeTARGET_HOOK, Ip: bpf.EncodeAddr(hook.IP)}] = bpf.EncodeAddr(
				hook.Shadow,
			)
		}
	},
	decode: func(t *Rows, s *state.State) {
		for key, shadow := range targetTable.of(t) {
			if key.Scope == bpf.AliothTargetScopeTARGET_PROBE {
				s.Probes = append(s.Probes, state.ProbeTarget{IP: bpf.DecodeAddr(key.Ip), Shadow: bpf.DecodeAddr(shadow)})
			} else {
				s.Hooks = append(s.Hooks, state.HookTarget{IP: bpf.DecodeAddr(key.Ip), Shadow: bpf.DecodeAddr(shadow)})
			}
		}
	},
}

// Namespaces: netns cookie -> its VPCs and addresses, in order of attachment.
const netnsTable = table[uint64, bpf.AliothNetns]("netns")

var namespacesTable = &descriptor{
	anyTable: netnsTable,
	encode: func(t *Rows, p part) {
		for _, n := range p.Namespaces {
			netnsTable.of(t)[n.Cookie] = encodeNamespace(n)
		}
	},
	decode: func(t *Rows, s *state.State) {
		for cookie, row := range netnsTable.of(t) {
			s.Namespaces = append(s.Namespaces, decodeNamespace(cookie, row))
		}
	},
}

func encodeNamespace(n state.Namespace) bpf.AliothNetns {
	var row bpf.AliothNetns
	if n.Shared {
		row.Flags = bpf.AliothNetnsFlagNETNS_SHARED
	}
	for i, m := range n.Memberships {
		vpc := &row.Vpc[i]
		vpc.Vni, vpc.Ifindex = m.VNI, uint32(m.Ifindex)
		for _, ip := range m.Addrs {
			vpc.Ip[bpf.FamilyOf(ipfamily.Of(ip.Unmap()))] = bpf.EncodeAddr(ip)
		}
	}
	return row
}

func decodeNamespace(cookie uint64, row bpf.AliothNetns) state.Namespace {
	n := state.Namespace{Cookie: cookie, Shared: row.Flags&bpf.AliothNetnsFlagNETNS_SHARED != 0}
	for _, vpc := range row.Vpc {
		if vpc.Vni == 0 {
			break
		}
		m := state.Membership{VNI: vpc.Vni, Ifindex: int(vpc.Ifindex)}
		for _, raw := range vpc.Ip {
			if ip := bpf.DecodeAddr(raw); ip.IsValid() {
				m.Addrs = append(m.Addrs, ip)
			}
		}
		n.Memberships = append(n.Memberships, m)
	}
	return n
}
