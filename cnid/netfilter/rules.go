// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/netfilter/ruleset"
)

// Reasons for which the table drops packets; the names of its counters.
const (
	// ReasonUnhandled: a packet came out of a device whose program should
	// have taken it.
	ReasonUnhandled = "unhandled"
	// ReasonUnshadowed: a pod's packet has a source that is no shadow
	// address, because no program translated it.
	ReasonUnshadowed = "unshadowed"
	// ReasonForeignShadow: a packet from outside the node uses a shadow
	// address.
	ReasonForeignShadow = "foreign_shadow"
	// ReasonForeignDefaultVPC: a packet for the default VPC reached the node
	// without a tunnel header.
	ReasonForeignDefaultVPC = "foreign_default_vpc"
	// ReasonNodeClosed: a pod sent the node something that is neither a reply
	// nor let out by a program.
	ReasonNodeClosed = "node_closed"
	// ReasonForwardClosed: the same, for something to be forwarded.
	ReasonForwardClosed = "forward_closed"
	// ReasonDefaultVPCClosed: something other than a flow to a shared service was to
	// be forwarded into the default VPC.
	ReasonDefaultVPCClosed = "default_vpc_closed"
	// ReasonShadowUnsolicited: somebody other than the node itself opened a flow
	// to a shadow address.
	ReasonShadowUnsolicited = "shadow_unsolicited"
	// ReasonTunnelPort: a pod's packet could be read as a tunnel's.
	ReasonTunnelPort = "tunnel_port"
	// ReasonRewritten: somebody else's rule has given a pod's packet another
	// destination than the one that a program let through.
	ReasonRewritten = "rewritten"
	// ReasonNoLocalEndpoint: a Service wants what comes from outside to stay on the node
	// where it came in, and this one has no backend.
	ReasonNoLocalEndpoint = "no_local_endpoint"
	// ReasonSourceRange: a Service wants no packets from this source
	// (loadBalancerSourceRanges).
	ReasonSourceRange = "source_range"
	// ReasonFrontendChanged: the backends of a Service changed while a packet for it
	// was looked at; who sent it sends it again.
	ReasonFrontendChanged = "frontend_changed"
	// ReasonShadowSocket: a socket of the node opens a flow to a shadow.
	ReasonShadowSocket = "shadow_socket"
	// ReasonTunnelSocket: a socket of the node sends to the tunnel's port.
	ReasonTunnelSocket = "tunnel_socket"
	// ReasonFlowLimit: a pod has more flows through the door than it may, or
	// one of the default VPC to the node's address there; or there are too
	// many to be counted.
	ReasonFlowLimit = "flow_limit"
	// ReasonInvalid: connection tracking finds no flow for a pod's packet, or one
	// to which it does not fit, so that nobody would translate its source.
	ReasonInvalid = "invalid"
	// ReasonShadowNotTranslated: a packet was about to leave the node from or to a shadow
	// address.
	ReasonShadowNotTranslated = "shadow_not_translated"
)

// Reasons lists every reason, in the order in which Counters returns them.
func Reasons() []string {
	return []string{
		ReasonUnhandled, ReasonUnshadowed, ReasonForeignShadow, ReasonForeignDefaultVPC, ReasonNodeClosed,
		ReasonForwardClosed, ReasonDefaultVPCClosed, ReasonShadowUnsolicited, ReasonTunnelPort, ReasonRewritten,
		ReasonShadowSocket, ReasonTunnelSocket,
		ReasonNoLocalEndpoint, ReasonSourceRange, ReasonFrontendChanged, ReasonFlowLimit,
		ReasonInvalid, ReasonShadowNotTranslated,
	}
}

// rule is a list of conditions, all of which must hold, with what is done
// then.
type rule []expr.Any

// chain is one chain of the table. A chain without hook is only jumped to.
type chain struct {
	name     string
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority *nftables.ChainPriority
	rules    []rule
	// variable chains can be refilled apart from the others.
	variable bool
	// mark is the fingerprint of what the chain was made from.
	mark string
}

// chains returns the whole table for a state, targets of jumps first.
func chains(s ruleset.State) []chain {
	return slices.Concat(shares(s), hostPortChains(s), frontendChains(), openPorts(s), ownChains(s), []chain{
		{
			name: "raw_prerouting", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookPrerouting,
			priority: nftables.ChainPriorityRaw, rules: rawPrerouting(s),
		},
		{
			name: "raw_output", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookOutput,
			priority: nftables.ChainPriorityRaw, rules: []rule{when(toTunnel(s), rule{&expr.Notrack{}})},
		},
		{
			name: "input", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookInput,
			priority: nftables.ChainPriorityFilter, rules: input(s),
		},
		{
			name: "forward", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookForward,
			priority: nftables.ChainPriorityFilter, rules: forward(s),
		},
		{
			name: "postrouting", kind: nftables.ChainTypeNAT, hook: nftables.ChainHookPostrouting,
			priority: nftables.ChainPriorityNATSource, rules: postrouting(s),
		},
		{
			name: "nat_input", kind: nftables.ChainTypeNAT, hook: nftables.ChainHookInput,
			priority: nftables.ChainPriorityNATSource, rules: asSelf(s),
		},
		{
			name: "leaving", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookPostrouting,
			priority: afterOthers, rules: shadowsStay(s),
		},
	})
}

func rawPrerouting(s ruleset.State) []rule {
	rules := []rule{
		when(fromDevice("lo"), toTunnel(s), drop(ReasonTunnelSocket)), // no tunnel leads there
		when(toTunnel(s), rule{&expr.Notrack{}}),
	}
	for _, device := range s.SealedDevices {
		rules = append(rules, when(fromDevice(device), drop(ReasonUnhandled)))
	}
	for _, shadow := range s.Shadows {
		rules = append(rules, when(fromDevices(s.PodDevices), outside(source, shadow), drop(ReasonUnshadowed)))
	}
	for _, family := range missingFamilies(s.Shadows) {
		rules = append(rules, when(fromDevices(s.PodDevices), ofFamily(family), drop(ReasonUnshadowed)))
	}
	rules = append(rules,
		when(fromDevices(s.PodDevices), verdict(expr.VerdictAccept)),
		when(fromDevice(s.NodeDevice), verdict(expr.VerdictAccept)),
		when(fromDevice("lo"), verdict(expr.VerdictAccept)))
	for _, shadow := range s.Shadows {
		rules = append(rules,
			when(inside(source, shadow), drop(ReasonForeignShadow)),
			when(inside(destination, shadow), drop(ReasonForeignShadow)))
	}
	for _, prefix := range s.DefaultVPC {
		rules = append(rules, when(inside(destination, prefix), drop(ReasonForeignDefaultVPC)))
	}
	return rules
}

// input lets pods reach the node itself as far as they answer it or a program
// has let them: which addresses the node has is known here only, so a flow
// that may just leave the cluster ends here.
func input(s ruleset.State) []rule {
	pod, node := fromDevices(s.PodDevices), fromDevice(s.NodeDevice)
	rules := []rule{
		when(pod, invalid(), drop(ReasonInvalid)),
		when(pod, replying(), verdict(expr.VerdictAccept)),
	}
	rules = append(rules, onThisNode(s)...)
	rules = append(rules, disguised(s, pod)...)
	rules = append(rules, limit(s, pod, podShare)...)
	rules = append(rules, limit(s, node, nodeShare)...)
	return append(rules,
		when(pod, marked(s, s.SharedMark), verdict(expr.VerdictAccept)),
		when(pod, marked(s, s.NodeMark), verdict(expr.VerdictAccept)),
		when(pod, drop(ReasonNodeClosed)))
}

// forward lets nothing through to a shadow but replies, and what came to a port
// of the node that leads to a pod; beside that only the node itself, whose
// packets never pass here, can open a flow to a pod.
func forward(s ruleset.State) []rule {
	pod, toPod := fromDevices(s.PodDevices), toDevices(s.PodDevices)
	node, toNode := fromDevice(s.NodeDevice), toDevice(s.NodeDevice)
	rules := []rule{
		when(pod, invalid(), drop(ReasonInvalid)),
		when(toPod, answering(), verdict(expr.VerdictAccept)),
	}
	rules = append(rules, served(s)...)
	rules = append(rules, when(toPod, drop(ReasonShadowUnsolicited)))
	rules = append(rules, throughHere(s)...)
	rules = append(rules, disguised(s, pod)...)
	rules = append(rules, limit(s, pod, podShare)...)
	return append(rules,
		when(pod, marked(s, s.SharedMark), verdict(expr.VerdictAccept)),
		when(toNode, replying(), verdict(expr.VerdictAccept)),
		when(toNode, drop(ReasonDefaultVPCClosed)),
		when(pod, marked(s, s.EgressMark), verdict(expr.VerdictAccept)),
		when(pod, marked(s, s.NodeMark), verdict(expr.VerdictAccept)),
		when(pod, replying(), verdict(expr.VerdictAccept)),
		when(pod, drop(ReasonForwardClosed)),
		when(node, replying(), verdict(expr.VerdictAccept)),
		when(node, drop(ReasonForwardClosed)))
}

// disguised drops what a program would not have marked, had it seen the packet
// as it is now: whoever translates destinations does so after the programs.
func disguised(s ruleset.State, pod rule) []rule {
	return []rule{
		when(pod, toTunnel(s), drop(ReasonTunnelPort)),
		when(pod, rewritten(), drop(ReasonRewritten)),
	}
}

func postrouting(s ruleset.State) []rule {
	rules := asNode(s)
	for _, family := range families() {
		rules = append(rules, when(relayed(s, family), rule{&expr.Masq{}}), when(asksAnotherNode(s, family), rule{&expr.Masq{}}))
	}
	for _, shadow := range s.Shadows {
		rules = append(rules, when(notToDevices(s.PodDevices), inside(source, shadow), leaving(), rule{&expr.Masq{}}))
	}
	return rules
}

// afterOthers is behind where anybody translates sources.
var afterOthers = nftables.ChainPriorityConntrackHelper

// shadowsStay drops what still has a shadow address where it leaves the node: who
// masquerades sees neither what conntrack does not track nor what it can't read, and
// flows as old as the table only as they began.
func shadowsStay(s ruleset.State) []rule {
	var rules []rule
	for _, shadow := range s.Shadows {
		for _, of := range []side{source, destination} {
			rules = append(rules, when(notToDevices(s.PodDevices), inside(of, shadow), leaving(), drop(ReasonShadowNotTranslated)))
		}
	}
	return rules
}

// leaving holds for packets that go out of the node: what takes lo stays on it.
func leaving() rule { return not(toDevice("lo")) }

func toTunnel(s ruleset.State) rule { return toPort(unix.IPPROTO_UDP, s.TunnelPort) }
