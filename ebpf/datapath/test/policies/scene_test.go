// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies_test judges single packets by the maps of network policies.
package policies_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/judged"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wire"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/world"
	"github.com/alioth-net/alioth/ebpf/datapath/connections"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/ebpf/datapath/telemetry"
)

// How a packet is judged.
const (
	egress  = judged.JudgedJudgingFlag(0)
	ingress = judged.JudgedJudgingFlagJUDGE_INGRESS
	outside = judged.JudgedJudgingFlagJUDGE_OUTSIDE
	shared  = judged.JudgedJudgingFlagJUDGE_SHARED
)

// asked is the identity of a peer whose packet tells none.
const asked = bpf.AliothIdentity(0xffffffff)

// The pod of a scene, its device, another device, its peers, and the limit of flows.
const (
	vni         = 100
	device      = 7
	otherDevice = 8
	podIP       = "10.0.1.10"
	podIP6      = "fd10::10"
	peerIP      = "10.0.2.20"
	peerIP6     = "fd10::20"
	web         = bpf.AliothIdentity(256)
	db          = bpf.AliothIdentity(257)
	share       = 4
)

const isolated = bpf.AliothGuardedFlagGUARDED_ISOLATED

// Reasons of the program.
const (
	allowed   = "undecided"
	noIngress = "policy_ingress"
	noEgress  = "policy_egress"
	unknown   = "policy_unknown"
	full      = "policy_full"
)

// scene is the program, with its maps.
type scene struct {
	Judge       *ebpf.Program `ebpf:"alioth_judge"`
	Interfaces  *ebpf.Map     `ebpf:"alioth_interfaces"`
	Guards      *ebpf.Map     `ebpf:"alioth_guards"`
	Identities  *ebpf.Map     `ebpf:"alioth_identities"`
	Peers       *ebpf.Map     `ebpf:"alioth_policy_peers"`
	Nets        *ebpf.Map     `ebpf:"alioth_policy_nets"`
	Ports       *ebpf.Map     `ebpf:"alioth_policy_ports"`
	Epochs      *ebpf.Map     `ebpf:"alioth_epochs"`
	Judged      *ebpf.Map     `ebpf:"alioth_judged"`
	Opened      *ebpf.Map     `ebpf:"alioth_judged_opened"`
	Ended       *ebpf.Map     `ebpf:"alioth_judged_ended"`
	Hits        *ebpf.Map     `ebpf:"alioth_policy_hits"`
	Connections *ebpf.Map     `ebpf:"alioth_connections"`

	Ifindex *ebpf.Variable `ebpf:"judged_ifindex"`
	Peer    *ebpf.Variable `ebpf:"judged_peer"`
	How     *ebpf.Variable `ebpf:"judged_how"`
}

// newScene loads the program with room for so many flows, and guards the pod.
func newScene(t *testing.T, room uint32, guard bpf.AliothGuard) *scene {
	t.Helper()
	bpftest.InNamespace(t)
	spec, err := judged.LoadJudged()
	bpftest.Must(t, err)
	bpftest.Must(t, spec.Variables["alioth_config"].Set(bpf.AliothConfig{ConnectionsPerInterface: share}))
	spec.Maps[bpf.JudgedMap].MaxEntries = room
	s := &scene{}
	if err := spec.LoadAndAssign(s, nil); err != nil {
		t.Fatalf("load the program: %+v", err)
	}
	t.Cleanup(s.close)
	for _, ifindex := range []uint32{device, otherDevice} {
		bpftest.Must(t, s.Interfaces.Put(ifindex, bpf.AliothInterface{
			Ip:    [2]bpf.AliothAddr{bpf.EncodeAddr(wire.IP(podIP)), bpf.EncodeAddr(wire.IP(podIP6))},
			Vni:   vni,
			Flags: bpf.AliothInterfaceFlagINTERFACE_INGRESS_JUDGED | bpf.AliothInterfaceFlagINTERFACE_EGRESS_JUDGED,
		}))
		bpftest.Must(t, s.table().Open(ifindex))
		s.guard(t, ifindex, guard)
	}
	for _, identity := range []bpf.AliothIdentity{web, db} {
		s.peer(t, 0, identity, 0)
	}
	return s
}

func (s *scene) close() {
	for _, m := range []*ebpf.Map{
		s.Interfaces, s.Guards, s.Identities, s.Peers, s.Nets, s.Ports, s.Epochs, s.Judged, s.Opened, s.Ended, s.Hits,
		s.Connections,
	} {
		m.Close()
	}
	s.Judge.Close()
}

// table is the daemon's side of the flows.
func (s *scene) table() *connections.Judged {
	return connections.NewJudged(bpf.Maps{
		bpf.JudgedMap: s.Judged, bpf.JudgedOpenedMap: s.Opened, bpf.JudgedEndedMap: s.Ended,
	})
}

func (s *scene) guard(t *testing.T, ifindex uint32, guard bpf.AliothGuard) {
	t.Helper()
	bpftest.Must(t, s.Guards.Put(ifindex, guard))
}

// peer writes a row of a set of the VPC.
func (s *scene) peer(t *testing.T, set uint32, identity bpf.AliothIdentity, list uint32) {
	t.Helper()
	bpftest.Must(t, s.Peers.Put(bpf.AliothPolicyPeer{Vni: vni, Set: set, Identity: identity}, list))
}

// net writes a row of a set for a range of addresses.
func (s *scene) net(t *testing.T, set uint32, prefix string, list uint32) {
	t.Helper()
	key := bpf.EncodePrefix(vni, netip.MustParsePrefix(prefix))
	bpftest.Must(t, s.Nets.Put(bpf.AliothPolicyNet{Prefixlen: key.Prefixlen + 32, Vni: vni, Set: set, Ip: key.Ip}, list))
}

// ports writes the rules of a list for a range of ports, which bits of the port have in common.
func (s *scene) ports(t *testing.T, list uint32, proto uint8, port uint16, bits uint32, rules ...bpf.AliothPolicyRule) {
	t.Helper()
	var row bpf.AliothPolicyRules
	copy(row.Tier[:], rules)
	key := bpf.AliothPolicyPort{Prefixlen: 80 + bits, Vni: vni, List: list, Proto: proto, Port: bpf.NetworkOrder(port)}
	bpftest.Must(t, s.Ports.Put(key, row))
}

// any writes the rules of a list for all ports and protocols.
func (s *scene) any(t *testing.T, list uint32, rules ...bpf.AliothPolicyRule) {
	t.Helper()
	for _, proto := range []uint8{state.ProtoTCP, state.ProtoUDP, protoSCTP, 0} {
		s.ports(t, list, proto, 0, 0, rules...)
	}
}

// known gives the peer's addresses an identity.
func (s *scene) known(t *testing.T, vni uint32, identity bpf.AliothIdentity) {
	t.Helper()
	for _, ip := range []string{peerIP, peerIP6} {
		bpftest.Must(t, s.Identities.Put(bpf.AliothAddressKey{Vni: vni, Ip: bpf.EncodeAddr(wire.IP(ip))}, identity))
	}
}

// epoch begins another epoch of the VPC.
func (s *scene) epoch(t *testing.T, epoch uint32) {
	t.Helper()
	bpftest.Must(t, s.Epochs.Put(uint32(vni), epoch))
}

// askAt judges a packet of a device.
func (s *scene) askAt(t *testing.T, ifindex uint32, f wire.Frame, how judged.JudgedJudgingFlag, peer bpf.AliothIdentity) string {
	t.Helper()
	bpftest.Must(t, s.Ifindex.Set(ifindex))
	bpftest.Must(t, s.Peer.Set(uint32(peer)))
	bpftest.Must(t, s.How.Set(uint32(how)))
	reason, _, _ := world.Run(t, s.Judge, 1, f.Bytes())
	return telemetry.Reason(reason).String()
}

// want judges a packet of the pod, and compares the result.
func (s *scene) want(t *testing.T, name string, f wire.Frame, how judged.JudgedJudgingFlag, peer bpf.AliothIdentity, want string) {
	t.Helper()
	if got := s.askAt(t, device, f, how, peer); got != want {
		t.Errorf("%s: %s, want %s", name, got, want)
	}
}

// forget ends all flows of the pod.
func (s *scene) forget(t *testing.T) {
	t.Helper()
	bpftest.Must(t, s.table().End(device))
	bpftest.Must(t, s.table().Open(device))
}

// held returns the number of flows of the pod, as its limit counts them.
func (s *scene) held(t *testing.T) uint32 {
	t.Helper()
	var opened, ended uint32
	bpftest.Must(t, errors.Join(s.Opened.Lookup(uint32(device), &opened), s.Ended.Lookup(uint32(device), &ended)))
	return opened - ended
}

// hit returns the hits of a rule.
func (s *scene) hit(t *testing.T, set uint32, rank bpf.AliothPolicyRule) (sum bpf.AliothPolicyHits) {
	t.Helper()
	var each []bpf.AliothPolicyHits
	err := s.Hits.Lookup(bpf.AliothPolicyRank{Vni: vni, Set: set, Rank: uint32(rank)}, &each)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return sum
	}
	bpftest.Must(t, err)
	for _, cpu := range each {
		sum.Packets += cpu.Packets
		sum.Flows += cpu.Flows
	}
	return sum
}

// Rules with a rank.
func accept(rank bpf.AliothPolicyRule) bpf.AliothPolicyRule {
	return bpf.AliothPolicyRuleRULE_ACCEPT | rank
}

func deny(rank bpf.AliothPolicyRule) bpf.AliothPolicyRule {
	return bpf.AliothPolicyRuleRULE_DENY | rank
}

// pass is a rule with rank 1 that leads to the next tier.
const pass = bpf.AliothPolicyRuleRULE_PASS | 1

// none is the lack of a rule in a tier.
const none = bpf.AliothPolicyRule(0)

const protoSCTP = 132

// sent and received are packets between the pod and its peer.
func sent(l4 wire.Transport) wire.Frame {
	return wire.Frame{Src: wire.IP(podIP), Dst: wire.IP(peerIP), L4: l4}
}

func received(l4 wire.Transport) wire.Frame {
	return wire.Frame{Src: wire.IP(peerIP), Dst: wire.IP(podIP), L4: l4}
}

// over6 returns the same packet over IPv6.
func over6(f wire.Frame) wire.Frame {
	six := map[netip.Addr]netip.Addr{wire.IP(podIP): wire.IP(podIP6), wire.IP(peerIP): wire.IP(peerIP6)}
	f.Src, f.Dst = six[f.Src], six[f.Dst]
	return f
}

func syn(sport, dport uint16) wire.TCP { return segment(sport, dport, wire.FlagSYN) }

func segment(sport, dport uint16, flags uint8) wire.TCP {
	return wire.TCP{Sport: sport, Dport: dport, Flags: flags}
}
