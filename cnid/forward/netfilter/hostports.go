// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
)

// The chains with one rule for each port of the node that leads to a pod: two chains
// translate packets, the third one accepts translated packets.
const (
	hostPortsChain = "host_ports"
	// ownPortsChain has the ports that also apply to packets of the node to itself.
	ownPortsChain = "host_ports_own"
	servedChain   = "host_ports_served"
)

// hostPortChains are the chains that change with the pods of the node.
func hostPortChains(s ruleset.State) []chain {
	ports, own, served := chain{
		name: hostPortsChain, variable: true,
	}, chain{
		name: ownPortsChain, variable: true,
	}, chain{
		name: servedChain, variable: true,
	}
	for _, p := range s.HostPorts {
		ports.rules = append(ports.rules, when(asked(p), translated(p)))
		if p.Own {
			own.rules = append(own.rules, when(asked(p), translated(p)))
		}
		served.rules = append(served.rules, when(reached(p), verdict(expr.VerdictAccept)))
	}
	return []chain{ports, own, served}
}

// asked holds for packets to the node's port.
func asked(p ruleset.HostPort) rule {
	family := ipfamily.Of(p.Shadow).Number()
	if p.HostIP.IsValid() {
		return when(inside(destination, single(p.HostIP)), toPort(p.Protocol, p.HostPort))
	}
	return when(ofFamily(family), toPort(p.Protocol, p.HostPort))
}

// reached holds for packets to the pod's port at its shadow.
func reached(p ruleset.HostPort) rule {
	return when(inside(destination, single(p.Shadow)), toPort(p.Protocol, p.Port))
}

func translated(p ruleset.HostPort) rule {
	return rule{
		&expr.Immediate{Register: 1, Data: p.Shadow.AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(p.Port)},
		&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: uint32(ipfamily.Of(p.Shadow).Number()), RegAddrMin: 1, RegProtoMin: 2,
			Specified: true,
		},
	}
}

func single(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }

func toPort(protocol uint8, port uint16) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocol}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(port)},
	}
}

// toThisNode holds for packets to an address that the node has.
func toThisNode() rule {
	return rule{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}
}

// openPorts translates packets to the node's ports and to frontends. They come from
// outside, from pods of the default VPC, which may reach nodes, and from the node itself,
// which reaches few pods in this way. Tenants' pods reach frontends of their own VPC.
// Frontends and ports of pods have no port in common. Packets of other nodes through the
// default VPC go to frontends only.
func openPorts(s ruleset.State) []chain {
	pod, node := fromPods(s), fromDevice(s.NodeDevice)
	return []chain{
		{
			name: "nat_prerouting", kind: nftables.ChainTypeNAT, hook: nftables.ChainHookPrerouting,
			priority: beforeOthers, rules: append(tenantsPorts(s), []rule{
				when(pod, not(marked(s, s.NodeMark)), verdict(expr.VerdictAccept)),
				when(node, jump(nodesChain)),
				when(node, verdict(expr.VerdictAccept)),
				when(toThisNode(), jump(hostPortsChain)),
				when(pod, jump(insideChain)),
				when(pod, verdict(expr.VerdictAccept)),
				jump(outsideChain),
			}...),
		},
		{
			name: "nat_output", kind: nftables.ChainTypeNAT, hook: nftables.ChainHookOutput,
			priority: beforeOthers, rules: []rule{when(toThisNode(), jump(ownPortsChain)), jump(selfChain)},
		},
	}
}

// tenantsPorts sends packets of tenants' pods to frontends, if a program has allowed
// them: the program has checked that the destination is a node's address, and that the
// port belongs to the pod's VPC.
func tenantsPorts(s ruleset.State) []rule {
	var rules []rule
	for _, ip := range s.Addresses {
		rules = append(rules, when(fromPods(s), marked(s, s.EgressMark), inside(destination, single(ip)), jump(insideChain)))
	}
	return rules
}

// beforeOthers is a priority before the usual one of destination NAT, which other programs
// use. So the target of a port does not depend on the age of the tables.
var beforeOthers = nftables.ChainPriorityRef(*nftables.ChainPriorityNATDest - 1)

// served accepts flows that this table, or a rule of another program, has sent to a
// port of a pod. They count on the account of the pod.
func served(s ruleset.State) []rule {
	toPod := when(toPods(s), rewritten())
	var rules []rule
	if s.FlowsPerShadow > 0 {
		rules = append(rules,
			when(fromPods(s), toPod, opening(), jump(podShare)),
			when(toPod, opening(), jump(servedShare)))
	}
	rules = append(rules, when(toPod, jump(servedChain)))
	for _, family := range families() {
		rules = append(rules, when(toPod, isPlace(family), verdict(expr.VerdictAccept)))
	}
	return rules
}

// throughHere accepts packets to a backend on another node. Such flows count on the
// account of the port where that node receives them.
func throughHere(s ruleset.State) []rule {
	var rules []rule
	for _, family := range families() {
		if s.FlowsPerShadow > 0 {
			rules = append(rules, when(relayed(s, family), opening(), jump(relayShare)))
		}
		rules = append(rules, when(relayed(s, family), verdict(expr.VerdictAccept)))
	}
	return rules
}

// asNode replaces the source of a flow to a pod's port with the node's shadow. A pod can reply
// to it whatever addresses its VPC has. asNode excludes preserved sources.
func asNode(s ruleset.State) []rule {
	rules := preserved(s)
	for _, shadow := range s.NodeShadows {
		family := ipfamily.Of(shadow).Number()
		rules = append(rules, when(toPods(s), ofFamily(family), rewritten(), rule{
			&expr.Immediate{Register: 1, Data: shadow.AsSlice()},
			&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(family), RegAddrMin: 1},
		}))
	}
	return rules
}
