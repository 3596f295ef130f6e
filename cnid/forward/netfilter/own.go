// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// toShadowChain decides about the node's packets to shadow addresses.
const toShadowChain = "own_to_shadow"

// ownChains filter the node's own packets. Packets to the port of the tunnel are dropped.
// Packets to a shadow are accepted if they are replies or belong to a port that leads to a
// pod. Packets that open a flow get a mark, and the datapath accepts only the kubelet's.
func ownChains(s ruleset.State) []chain {
	rules := []rule{when(toTunnel(s), bySocket(), not(marked(s, s.TunneledMark)), drop(ReasonTunnelSocket))}
	for _, shadow := range s.Shadows {
		rules = append(rules, when(toPods(s), inside(destination, shadow), jump(toShadowChain)))
	}
	return []chain{
		{name: toShadowChain, rules: toShadow(s)},
		{
			name: "output", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookOutput,
			priority: nftables.ChainPriorityFilter, rules: rules,
		},
	}
}

func toShadow(s ruleset.State) []rule {
	rules := []rule{
		// A sender may have set any mark.
		when(answering(), setMark(s, 0), verdict(expr.VerdictAccept)),
		when(rewritten(), jump(servedChain)),
	}
	for _, family := range families() {
		rules = append(rules, when(rewritten(), isPlace(family), verdict(expr.VerdictAccept)))
	}
	return append(rules,
		when(opening(), setMark(s, s.OpeningMark), verdict(expr.VerdictAccept)),
		drop(ReasonShadowSocket))
}

// bySocket holds for packets of a socket of this network namespace. Other packets have no
// user that the kernel could load, so they do not match.
func bySocket() rule { return rule{&expr.Meta{Key: expr.MetaKeySKUID, Register: 1}} }

// setMark replaces the bits of MarkMask.
func setMark(s ruleset.State, mark uint32) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(^s.MarkMask), Xor: binaryutil.NativeEndian.PutUint32(mark),
		},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
	}
}
