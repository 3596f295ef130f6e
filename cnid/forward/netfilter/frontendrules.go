// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// Chains that do not depend on the frontends.
const (
	outsideChain = "frontends_from_outside"
	insideChain  = "frontends_from_inside"
	selfChain    = "frontends_from_self"
	nodesChain   = "frontends_from_nodes"
	refusedChain = "refused"
	// noLocalEndpointChain drops packets that only other nodes have a place for.
	noLocalEndpointChain = "no_local_endpoint"
)

// The 4-byte registers of a packet's key: address, protocol, port and slot in this
// order, and separately the client's address.
const (
	keyRegister    = unix.NFT_REG32_00
	clientRegister = unix.NFT_REG32_08
)

// pickSeed is the same on all nodes and in every table, so that packets of one client
// address go to the same place.
const pickSeed = 0x5bd1e995

// words is the length of an address in registers.
func words(family byte) uint32 {
	if family == unix.NFPROTO_IPV4 {
		return 1
	}
	return 4
}

// loadKey loads the key that keyOf makes: for the packet's destination, or for all
// addresses of the node.
func loadKey(family byte, ofNode bool) rule { return loadKeyAt(keyRegister, family, ofNode) }

func loadKeyAt(register uint32, family byte, ofNode bool) rule {
	ip := load(destination, family).(*expr.Payload)
	ip.DestRegister = register
	first := rule{ip}
	if ofNode {
		first = rule{&expr.Immediate{Register: register, Data: make([]byte, 4*words(family))}}
	}
	return when(first, rule{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register + words(family)},
		&expr.Payload{DestRegister: register + words(family) + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
	})
}

// isPlace holds for packets to a place of a frontend.
func isPlace(family byte) rule {
	return when(ofFamily(family), loadKey(family, false), rule{
		&expr.Lookup{SourceRegister: keyRegister, SetName: mapName(placesSet, family)},
	})
}

// frontendChains are the chains that look frontends up.
func frontendChains() []chain {
	return []chain{
		{name: refusedChain, rules: refusal()},
		{name: noLocalEndpointChain, rules: []rule{drop(ReasonNoLocalEndpoint)}},
		{
			name:  outsideChain,
			rules: slices.Concat(lookups(sourceRangesMap), lookups(preserveMap), lookups(fromOutsideMap), others()),
		},
		{name: insideChain, rules: slices.Concat(loopback(), lookups(fromInsideMap), others())},
		{
			name:  selfChain,
			rules: slices.Concat(loopback(), lookups(preserveMap), lookups(fromSelfMap), lookups(fromInsideMap), others()),
		},
		{name: nodesChain, rules: ofNodeLookups(fromNodesMap)},
	}
}

// refusal refuses a connection at once (RFC 9293 section 3.10.7.1, RFC 1122 section
// 4.1.3.1).
func refusal() []rule {
	return []rule{
		when(rule{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
			&expr.Reject{Type: unix.NFT_REJECT_TCP_RST},
		}),
		{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}},
	}
}

// loopback excludes packets of the node to its loopback addresses.
func loopback() []rule {
	var rules []rule
	for _, prefix := range []string{"127.0.0.0/8", "::1/128"} {
		rules = append(rules, when(inside(destination, netip.MustParsePrefix(prefix)), verdict(expr.VerdictReturn)))
	}
	return rules
}

func lookups(name string) []rule {
	rules := ofNodeLookups(name)
	for _, family := range families() {
		rules = append(rules, when(ofFamily(family), loadKey(family, false), toChain(name, family)))
	}
	return rules
}

func ofNodeLookups(name string) []rule {
	var rules []rule
	for _, family := range families() {
		rules = append(rules, when(ofFamily(family), toThisNode(), loadKey(family, true), toChain(name, family)))
	}
	return rules
}

// others refuses packets to other ports of a frontend's address. No host has the
// address, and the node's routes would send the packets back to their sender.
func others() []rule {
	var rules []rule
	for _, family := range families() {
		ip := load(destination, family).(*expr.Payload)
		ip.DestRegister = keyRegister
		rules = append(rules, when(ofFamily(family), rule{
			ip,
			&expr.Immediate{Register: keyRegister + words(family), Data: make([]byte, 4)},
			&expr.Immediate{Register: keyRegister + words(family) + 1, Data: make([]byte, 4)},
			&expr.Lookup{SourceRegister: keyRegister, SetName: mapName(addressesSet, family)},
		}, rule{&expr.Verdict{Kind: expr.VerdictGoto, Chain: refusedChain}}))
	}
	return rules
}

// toChain continues at the chain that a map has for the packet's key; without such an
// element the rule does not match.
func toChain(name string, family byte) rule {
	return rule{&expr.Lookup{
		SourceRegister: keyRegister, SetName: mapName(name, family), DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true,
	}}
}

// chain is the one that picks.
func (p pick) chain(ruleset.State) chain {
	c := chain{name: p.name(), mark: fmt.Sprintf("alioth %d %s", rulesVersion, p.name())}
	for _, family := range families() {
		if p.affinity > 0 {
			c.rules = append(c.rules, p.stay(family), p.settle(family))
		}
		c.rules = append(c.rules, when(ofFamily(family), loadKey(family, p.ofNode), p.number(family), rule{
			&expr.Lookup{
				SourceRegister: keyRegister, SetName: mapName(p.from, family), DestRegister: keyRegister, IsDestRegSet: true,
			},
			translate(family, keyRegister),
		}))
	}
	c.rules = append(c.rules, drop(ReasonFrontendChanged))
	return c
}

// translate replaces the destination of a packet with the one in registers.
func translate(family byte, place uint32) expr.Any {
	return &expr.NAT{
		Type: expr.NATTypeDestNAT, Family: uint32(family), RegAddrMin: place, RegProtoMin: place + words(family),
		Specified: true,
	}
}

// number puts a slot behind the key: a random one, or, for a frontend with affinity
// whose map is full, the one of the client's address.
func (p pick) number(family byte) rule {
	slot := keyRegister + words(family) + 2
	if p.affinity == 0 {
		return rule{&expr.Numgen{Register: slot, Modulus: uint32(p.slots), Type: unix.NFT_NG_RANDOM}}
	}
	client := load(source, family).(*expr.Payload)
	client.DestRegister = clientRegister
	return rule{client, &expr.Hash{
		SourceRegister: clientRegister, DestRegister: slot, Length: client.Len, Modulus: uint32(p.slots), Seed: pickSeed,
		Type: expr.HashTypeJenkins,
	}}
}

// chain marks packets whose source is preserved.
func (p preserve) chain(s ruleset.State) chain {
	c := chain{name: p.name(), mark: fmt.Sprintf("alioth %d %s %x", rulesVersion, p.name(), s.EgressMark)}
	for _, prefix := range p.hidden {
		c.rules = append(c.rules, when(inside(source, prefix), verdict(expr.VerdictReturn)))
	}
	c.rules = append(c.rules, setMark(s, s.EgressMark))
	return c
}

// chain returns for clients in the ranges and drops the others.
func (r sourceRanges) chain(ruleset.State) chain {
	c := chain{name: r.name(), mark: fmt.Sprintf("alioth %d %s", rulesVersion, r.name())}
	for _, prefix := range r.list {
		c.rules = append(c.rules, when(inside(source, prefix), verdict(expr.VerdictReturn)))
	}
	c.rules = append(c.rules, drop(ReasonSourceRange))
	return c
}

// preserved accepts packets whose source is preserved. They come from outside, or from the
// node itself without an input device. They have the mark of a pod's packets to the outside.
// No other packet to a pod that is not from a pod has this mark.
func preserved(s ruleset.State) []rule {
	keep := when(marked(s, s.EgressMark), rewritten(), verdict(expr.VerdictAccept))
	return []rule{when(toPods(s), not(fromPods(s)), keep), when(toPods(s), fromNowhere(), keep)}
}

// relayed holds for packets to a backend on another node.
func relayed(s ruleset.State, family byte) rule {
	return when(toDevice(s.NodeDevice), rewritten(), isPlace(family))
}

// asksAnotherNode holds for the node's own packets to a backend on another node, on the
// nodes' own network.
func asksAnotherNode(s ruleset.State, family byte) rule {
	return when(leaving(), not(toPods(s)), not(toDevice(s.NodeDevice)), rewritten(), ofFamily(family), rule{
		&expr.Fib{Register: 1, FlagSADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}, isPlace(family))
}

// onThisNode lets a pod of the default VPC reach a pod on this node's network through a
// frontend. The frontend has replaced the destination that a program has allowed.
func onThisNode(s ruleset.State) []rule {
	var rules []rule
	for _, family := range families() {
		asked := when(fromPods(s), marked(s, s.NodeMark), rewritten(), isPlace(family))
		if s.FlowsPerShadow > 0 {
			rules = append(rules, when(asked, opening(), jump(podShare)))
		}
		rules = append(rules, when(asked, verdict(expr.VerdictAccept)))
	}
	return rules
}

// asSelf replaces the source of datagrams from pods and other nodes that a frontend sends
// to this node's own network with the node's address. A socket that is bound to all
// addresses would otherwise reply from a different address than the datagram's
// destination.
func asSelf(s ruleset.State) []rule {
	var rules []rule
	for _, from := range []rule{fromPods(s), fromDevice(s.NodeDevice)} {
		for _, family := range families() {
			rules = append(rules, when(from, ofProtocol(unix.IPPROTO_UDP), rewritten(), ofFamily(family), isPlace(family), rule{
				load(destination, family),
				&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(family), RegAddrMin: 1},
			}))
		}
	}
	return rules
}

func ofProtocol(protocol uint8) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}},
	}
}
