// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
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
			rows[bpf.AliothTargetKey{Scope: bpf.AliothTargetScopeTARGET_HOOK, Ip: bpf.EncodeAddr(hook.IP)}] = bpf.EncodeAddr(hook.Shadow)
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
