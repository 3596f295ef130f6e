// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Targets: {scope, ip} -> shadow, for connects of the kubelet.
const targetTable = table[aliothTargetKey, aliothAddr]("targets")

var targetsTable = &descriptor{
	anyTable: targetTable,
	encode: func(t *Rows, p part) {
		rows := targetTable.of(t)
		for _, probe := range p.Probes {
			rows[aliothTargetKey{Ip: encodeAddr(probe.IP)}] = encodeAddr(probe.Shadow)
		}
		for _, hook := range p.Hooks {
			rows[aliothTargetKey{Scope: aliothTargetScopeTARGET_HOOK, Ip: encodeAddr(hook.IP)}] = encodeAddr(hook.Shadow)
		}
	},
	decode: func(t *Rows, s *state.State) {
		for key, shadow := range targetTable.of(t) {
			if key.Scope == aliothTargetScopeTARGET_PROBE {
				s.Probes = append(s.Probes, state.ProbeTarget{IP: decodeAddr(key.Ip), Shadow: decodeAddr(shadow)})
			} else {
				s.Hooks = append(s.Hooks, state.HookTarget{IP: decodeAddr(key.Ip), Shadow: decodeAddr(shadow)})
			}
		}
	},
}
