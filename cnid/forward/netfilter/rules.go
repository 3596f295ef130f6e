// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// Reasons of dropped packets, which are the names of the table's counters.
const (
	// ReasonUnhandled: a packet came from a device whose program should have handled
	// it.
	ReasonUnhandled = "unhandled"
	// ReasonUnshadowed: a pod's packet has a source outside of the shadow
	// addresses, because no program translated it.
	ReasonUnshadowed = "unshadowed"
	// ReasonForeignShadow: a packet from outside the node uses a shadow
	// address.
	ReasonForeignShadow = "foreign_shadow"
	// ReasonForeignDefaultVPC: a packet for the default VPC reached the node
	// without a tunnel header.
	ReasonForeignDefaultVPC = "foreign_default_vpc"
	// ReasonNodeClosed: a pod's packet to the node is neither a reply nor allowed by
	// a program.
	ReasonNodeClosed = "node_closed"
	// ReasonForwardClosed: the same, for a packet to be forwarded.
	ReasonForwardClosed = "forward_closed"
	// ReasonDefaultVPCClosed: a packet into the default VPC that is not of a flow to a
	// shared service.
	ReasonDefaultVPCClosed = "default_vpc_closed"
	// ReasonShadowUnsolicited: a flow to a shadow address that the node itself has not
	// opened.
	ReasonShadowUnsolicited = "shadow_unsolicited"
	// ReasonTunnelPort: a pod's packet could be read as a tunnel's.
	ReasonTunnelPort = "tunnel_port"
	// ReasonTunnelDevice: a tunnel's packet to the node came by another device than the
	// node's packets to its sender take, so the sender may have taken a node's address.
	ReasonTunnelDevice = "tunnel_device"
	// ReasonRewritten: a rule of another program has replaced the destination of a
	// pod's packet after a program of the datapath allowed it.
	ReasonRewritten = "rewritten"
	// ReasonNoLocalEndpoint: the Service's externalTrafficPolicy is Local, and this
	// node has no backend.
	ReasonNoLocalEndpoint = "no_local_endpoint"
	// ReasonSourceRange: the source is not in loadBalancerSourceRanges of the Service.
	ReasonSourceRange = "source_range"
	// ReasonFrontendChanged: the backends of a Service changed while a packet for it
	// was processed. The sender retransmits it.
	ReasonFrontendChanged = "frontend_changed"
	// ReasonShadowSocket: a socket of the node opens a flow to a shadow.
	ReasonShadowSocket = "shadow_socket"
	// ReasonTunnelSocket: a socket of the node sends to the tunnel's port.
	ReasonTunnelSocket = "tunnel_socket"
	// ReasonFlowLimit: a pod has reached its limit of flows through the node, or one
	// of the default VPC that to the node's address there; or the set of accounts is
	// full.
	ReasonFlowLimit = "flow_limit"
	// ReasonInvalid: connection tracking finds no flow that matches a pod's packet, so
	// its source would not be translated.
	ReasonInvalid = "invalid"
	// ReasonShadowNotTranslated: a packet was about to leave the node from or to a shadow
	// address.
	ReasonShadowNotTranslated = "shadow_not_translated"
)

// Reasons lists every reason, in the order of Counters.
func Reasons() []string {
	return []string{
		ReasonUnhandled, ReasonUnshadowed, ReasonForeignShadow, ReasonForeignDefaultVPC, ReasonNodeClosed,
		ReasonForwardClosed, ReasonDefaultVPCClosed, ReasonShadowUnsolicited, ReasonTunnelPort, ReasonTunnelDevice,
		ReasonRewritten, ReasonShadowSocket, ReasonTunnelSocket,
		ReasonNoLocalEndpoint, ReasonSourceRange, ReasonFrontendChanged, ReasonFlowLimit,
		ReasonInvalid, ReasonShadowNotTranslated,
	}
}

// rule is a list of conditions and an action. All conditions must hold.
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
	// mark is the fingerprint of the chain's input.
	mark string
}

// chains returns the whole table for a state, targets of jumps first.
func chains(s ruleset.State) []chain {
	return slices.Concat(shares(s), hostPortChains(s), frontendChains(), openPorts(s), ownChains(s), []chain{
		{name: fromPodChain, rules: shadowed(s)},
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

// fromPodChain decides about packets of pods' host ends.
const fromPodChain = "from_pod"

// shadowed accepts packets with a shadow address as source.
func shadowed(s ruleset.State) []rule {
	var rules []rule
	for _, shadow := range s.Shadows {
		rules = append(rules, when(outside(source, shadow), drop(ReasonUnshadowed)))
	}
	for _, family := range missingFamilies(s.Shadows) {
		rules = append(rules, when(ofFamily(family), drop(ReasonUnshadowed)))
	}
	return append(rules, verdict(expr.VerdictAccept))
}

func rawPrerouting(s ruleset.State) []rule {
	rules := []rule{
		when(fromDevice("lo"), toTunnel(s), drop(ReasonTunnelSocket)), // no tunnel leads there
		when(toTunnel(s), toThisNode(), Astray(), drop(ReasonTunnelDevice)),
		when(toTunnel(s), rule{&expr.Notrack{}}),
	}
	for _, device := range s.SealedDevices {
		rules = append(rules, when(fromDevice(device), drop(ReasonUnhandled)))
	}
	for _, kind := range s.PodKinds {
		rules = append(rules, when(fromPods(s), ofKind(kind), jump(fromPodChain)))
	}
	rules = append(rules,
		when(fromPods(s), drop(ReasonUnhandled)), // no host end: somebody changed its group
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

// input accepts pods' packets to the node itself if they are replies or allowed by a
// program. Only here all addresses of the node are known, so a flow that may only leave
// the cluster is dropped here.
func input(s ruleset.State) []rule {
	pod, node := fromPods(s), fromDevice(s.NodeDevice)
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

// forward accepts only replies to a shadow, and packets to a port of the node that leads
// to a pod. Beside that only the node itself can open a flow to a pod, and its packets do
// not pass this chain.
func forward(s ruleset.State) []rule {
	pod, toPod := fromPods(s), toPods(s)
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

// disguised drops packets that a program would not have marked with their present
// destination: other rules translate destinations after the programs.
func disguised(s ruleset.State, pod rule) []rule {
	return []rule{
		when(pod, toTunnel(s), drop(ReasonTunnelPort)),
		when(pod, rewritten(), drop(ReasonRewritten)),
	}
}

func postrouting(s ruleset.State) []rule {
	rules := asNode(s)
	for _, family := range families() {
		rules = append(
			rules, when(relayed(s, family), rule{&expr.Masq{}}), when(asksAnotherNode(s, family), rule{&expr.Masq{}}),
		)
	}
	for _, shadow := range s.Shadows {
		rules = append(rules, when(not(toPods(s)), inside(source, shadow), leaving(), rule{&expr.Masq{}}))
	}
	return rules
}

// afterOthers is a priority after all source NAT.
var afterOthers = nftables.ChainPriorityConntrackHelper

// shadowsStay drops packets that still have a shadow address where they leave the node.
// Masquerading does not apply to packets that conntrack does not track or can't read, and
// to flows that are older than the table.
func shadowsStay(s ruleset.State) []rule {
	var rules []rule
	for _, shadow := range s.Shadows {
		for _, of := range []side{source, destination} {
			rules = append(rules, when(not(toPods(s)), inside(of, shadow), leaving(), drop(ReasonShadowNotTranslated)))
		}
	}
	return rules
}

// leaving holds for packets that leave the node; packets on lo stay on it.
func leaving() rule { return not(toDevice("lo")) }

func toTunnel(s ruleset.State) rule { return toPort(unix.IPPROTO_UDP, s.TunnelPort) }
