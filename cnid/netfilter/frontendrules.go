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

	"github.com/alioth-net/alioth/cnid/netfilter/ruleset"
)

// Chains that are the same whatever frontends there are.
const (
	outsideChain = "frontends_from_outside"
	insideChain  = "frontends_from_inside"
	selfChain    = "frontends_from_self"
	nodesChain   = "frontends_from_nodes"
	refusedChain = "refused"
	// noLocalEndpointChain drops what another node has a place for.
	noLocalEndpointChain = "no_local_endpoint"
)

// Where a packet's key is loaded, as 4-byte registers: address, protocol, port and
// slot in this order, and apart from them the address that asks.
const (
	keyRegister    = unix.NFT_REG32_00
	clientRegister = unix.NFT_REG32_08
)

// pickSeed is the same on all nodes and in every table, so that who asks by the
// same address goes to the same place.
const pickSeed = 0x5bd1e995

// words is the length of an address in registers.
func words(family byte) uint32 {
	if family == unix.NFPROTO_IPV4 {
		return 1
	}
	return 4
}

// loadKey loads what keyOf concatenates: of the packet's destination, or of all
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
		{name: outsideChain, rules: slices.Concat(lookups(sourceRangesMap), lookups(preserveMap), lookups(fromOutsideMap), others())},
		{name: insideChain, rules: slices.Concat(loopback(), lookups(fromInsideMap), others())},
		{name: selfChain, rules: slices.Concat(loopback(), lookups(preserveMap), lookups(fromSelfMap), lookups(fromInsideMap), others())},
		{name: nodesChain, rules: ofNodeLookups(fromNodesMap)},
	}
}

// refusal answers at once that nobody is there (RFC 9293 section 3.10.7.1, RFC 1122
// section 4.1.3.1).
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

// loopback leaves alone what the node sends to itself by loopback addresses.
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

// others refuses what a frontend's address has no port for: it is nobody's, and the
// node's routes would send it back to where it came from.
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

// toChain goes on where a map leads; without an element of the packet's key the
// rule does not match.
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
			&expr.Lookup{SourceRegister: keyRegister, SetName: mapName(p.from, family), DestRegister: keyRegister, IsDestRegSet: true},
			translate(family, keyRegister),
		}))
	}
	c.rules = append(c.rules, drop(ReasonFrontendChanged))
	return c
}

// translate gives a packet the destination that is in registers.
func translate(family byte, place uint32) expr.Any {
	return &expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(family), RegAddrMin: place, RegProtoMin: place + words(family), Specified: true}
}

// number puts a slot behind the key: any, or where clients are to stay and nobody more
// can be remembered, the one of the client's address.
func (p pick) number(family byte) rule {
	slot := keyRegister + words(family) + 2
	if p.affinity == 0 {
		return rule{&expr.Numgen{Register: slot, Modulus: uint32(p.slots), Type: unix.NFT_NG_RANDOM}}
	}
	client := load(source, family).(*expr.Payload)
	client.DestRegister = clientRegister
	return rule{client, &expr.Hash{
		SourceRegister: clientRegister, DestRegister: slot, Length: client.Len, Modulus: uint32(p.slots), Seed: pickSeed, Type: expr.HashTypeJenkins,
	}}
}

// chain marks packets whose source stays as it is.
func (p preserve) chain(s ruleset.State) chain {
	c := chain{name: p.name(), mark: fmt.Sprintf("alioth %d %s %x", rulesVersion, p.name(), s.EgressMark)}
	for _, prefix := range p.hidden {
		c.rules = append(c.rules, when(inside(source, prefix), verdict(expr.VerdictReturn)))
	}
	c.rules = append(c.rules, setMark(s, s.EgressMark))
	return c
}

// chain leads clients inside of the ranges back.
func (r sourceRanges) chain(ruleset.State) chain {
	c := chain{name: r.name(), mark: fmt.Sprintf("alioth %d %s", rulesVersion, r.name())}
	for _, prefix := range r.list {
		c.rules = append(c.rules, when(inside(source, prefix), verdict(expr.VerdictReturn)))
	}
	c.rules = append(c.rules, drop(ReasonSourceRange))
	return c
}

// isPreserved holds for packets whose source stays as it is, because they came from
// outside or from the node itself.
// The mark is the one of what a pod sends to the outside: to a pod, and not from one,
// it goes with nothing else.
func isPreserved(s ruleset.State) rule {
	return when(toDevices(s.PodDevices), not(fromDevices(s.PodDevices)), marked(s, s.EgressMark), rewritten())
}

// relayed holds for what is on its way to another node that has a backend.
func relayed(s ruleset.State, family byte) rule {
	return when(toDevice(s.NodeDevice), rewritten(), isPlace(family))
}

// asksAnotherNode holds for what the node itself asks of another one that has a backend,
// on the nodes' own network.
func asksAnotherNode(s ruleset.State, family byte) rule {
	return when(leaving(), not(toDevices(s.PodDevices)), not(toDevice(s.NodeDevice)), rewritten(), ofFamily(family), rule{
		&expr.Fib{Register: 1, FlagSADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}, isPlace(family))
}

// onThisNode lets a pod of the default VPC reach a pod on this node's network by a
// frontend, which has given the packet another destination than the one that a program let
// through.
func onThisNode(s ruleset.State) []rule {
	var rules []rule
	for _, family := range families() {
		asked := when(fromDevices(s.PodDevices), marked(s, s.NodeMark), rewritten(), isPlace(family))
		if s.FlowsPerShadow > 0 {
			rules = append(rules, when(asked, opening(), jump(podShare)))
		}
		rules = append(rules, when(asked, verdict(expr.VerdictAccept)))
	}
	return rules
}

// asSelf shows datagrams from pods and other nodes that a frontend leads to this node's own
// network as the node's own: a socket for all addresses answers others from the address
// that is nearest to them, which is not the one that they were sent on to.
func asSelf(s ruleset.State) []rule {
	var rules []rule
	for _, from := range []rule{fromDevices(s.PodDevices), fromDevice(s.NodeDevice)} {
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
