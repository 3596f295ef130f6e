// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netfilter

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The chains that hold one rule for each port of the node that leads to a pod:
// the one translates, the other lets through what was translated.
const (
	hostPortsChain = "host_ports"
	// ownPortsChain has those that lead to pods also what the node sends to itself.
	ownPortsChain = "host_ports_own"
	servedChain   = "host_ports_served"
)

// HostPort is a port of the node that leads to a port of a pod.
type HostPort struct {
	// Protocol is IPPROTO_TCP (6), IPPROTO_UDP (17) or IPPROTO_SCTP (132).
	Protocol uint8
	// HostIP is the node's address at which the port is open; the zero value
	// for all of the family of Shadow.
	HostIP netip.Addr
	// HostPort and Port are the node's and the pod's, 1 to 65535.
	HostPort, Port uint16
	// Shadow is the pod's shadow address.
	Shadow netip.Addr
	// Own: what the node sends to itself goes to the pod, too. Otherwise it stays on
	// the node, where a program may listen at the port, now or later.
	Own bool
}

func (p HostPort) validate() error {
	switch {
	case p.Protocol != unix.IPPROTO_TCP && p.Protocol != unix.IPPROTO_UDP && p.Protocol != unix.IPPROTO_SCTP:
		return fmt.Errorf("protocol %d has no ports", p.Protocol)
	case p.HostPort == 0 || p.Port == 0:
		return errors.New("a port is 0")
	case !p.Shadow.IsValid() || p.HostIP.IsValid() && p.HostIP.Is4() != p.Shadow.Is4():
		return errors.New("no shadow of the family of the node's address")
	}
	return nil
}

// compareHostPorts puts those of one address before those of all, because the
// first rule decides.
func compareHostPorts(a, b HostPort) int {
	return cmp.Or(-a.HostIP.Compare(b.HostIP), a.Shadow.Compare(b.Shadow), cmp.Compare(a.Protocol, b.Protocol),
		cmp.Compare(a.HostPort, b.HostPort), cmp.Compare(a.Port, b.Port))
}

// hostPortChains are those that change while pods come and go.
func hostPortChains(s State) []chain {
	ports, own, served := chain{name: hostPortsChain, variable: true}, chain{name: ownPortsChain, variable: true}, chain{name: servedChain, variable: true}
	for _, p := range s.HostPorts {
		ports.rules = append(ports.rules, when(p.asked(), p.translated()))
		if p.Own {
			own.rules = append(own.rules, when(p.asked(), p.translated()))
		}
		served.rules = append(served.rules, when(p.reached(), verdict(expr.VerdictAccept)))
	}
	return []chain{ports, own, served}
}

// asked holds for packets to the node's port.
func (p HostPort) asked() rule {
	family := familyOf(single(p.Shadow))
	if p.HostIP.IsValid() {
		return when(inside(destination, single(p.HostIP)), toPort(p.Protocol, p.HostPort))
	}
	return when(ofFamily(family), toPort(p.Protocol, p.HostPort))
}

// reached holds for packets to the pod's port at its shadow.
func (p HostPort) reached() rule {
	return when(inside(destination, single(p.Shadow)), toPort(p.Protocol, p.Port))
}

func (p HostPort) translated() rule {
	return rule{
		&expr.Immediate{Register: 1, Data: p.Shadow.AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(p.Port)},
		&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: uint32(familyOf(single(p.Shadow))), RegAddrMin: 1, RegProtoMin: 2, Specified: true,
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

// openPorts translates what comes to the node's ports, and to frontends: from outside,
// from the default VPC's pods, which alone may reach nodes, and from the node itself,
// which reaches few pods so; to frontends of their own VPC also from tenants' pods. No port
// of a pod is a frontend's. What other nodes send
// through the default VPC goes to frontends only.
func openPorts(s State) []chain {
	pod, node := fromDevices(s.PodDevices), fromDevice(s.NodeDevice)
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

// tenantsPorts leads on to frontends what a program has let out for one, of a pod that may
// reach no node: it has looked for the port among those of the pod's VPC, where it knows
// the address for the node's.
func tenantsPorts(s State) []rule {
	var rules []rule
	for _, ip := range s.Addresses {
		rules = append(rules, when(fromDevices(s.PodDevices), marked(s, s.EgressMark), inside(destination, single(ip)), jump(insideChain)))
	}
	return rules
}

// beforeOthers is in front of where others translate destinations, so that it does
// not depend on whose table is older what a port of the node leads to.
var beforeOthers = nftables.ChainPriorityRef(*nftables.ChainPriorityNATDest - 1)

// served lets flows through that this table, or somebody else's rule, has sent to
// a port that a pod serves on the node. They count on the account of the pod.
func served(s State) []rule {
	toPod := when(toDevices(s.PodDevices), rewritten())
	var rules []rule
	if s.FlowsPerShadow > 0 {
		rules = append(rules,
			when(fromDevices(s.PodDevices), toPod, opening(), jump(podShare)),
			when(toPod, opening(), jump(servedShare)))
	}
	rules = append(rules, when(toPod, jump(servedChain)))
	for _, family := range families() {
		rules = append(rules, when(toPod, isPlace(family), verdict(expr.VerdictAccept)))
	}
	return rules
}

// throughHere lets through what goes to another node that has a backend. Such flows
// are on the account of the port at which that node takes them.
func throughHere(s State) []rule {
	var rules []rule
	for _, family := range families() {
		if s.FlowsPerShadow > 0 {
			rules = append(rules, when(relayed(s, family), opening(), jump(relayShare)))
		}
		rules = append(rules, when(relayed(s, family), verdict(expr.VerdictAccept)))
	}
	return rules
}

// asNode gives a flow to a pod's port the node's shadow for a source: it is what
// a pod can answer whatever addresses its VPC has. It leaves alone what keeps its source.
func asNode(s State) []rule {
	rules := []rule{when(isPreserved(s), verdict(expr.VerdictAccept))}
	for _, shadow := range s.NodeShadows {
		family := familyOf(single(shadow))
		rules = append(rules, when(toDevices(s.PodDevices), ofFamily(family), rewritten(), rule{
			&expr.Immediate{Register: 1, Data: shadow.AsSlice()},
			&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(family), RegAddrMin: 1},
		}))
	}
	return rules
}

func sortedHostPorts(list []HostPort) []HostPort {
	return slices.SortedFunc(slices.Values(list), compareHostPorts)
}
