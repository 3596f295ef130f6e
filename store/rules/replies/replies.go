// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replies reads the nodes' replies to the operator's roll calls
// (docs/design/010-roll-call.md): which nodes count, which VNIs they use, and which
// claims are reserved. The operator and `aliothctl verify` use it.
package replies

import (
	"slices"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// answer is the last answer of a known node.
type answer struct {
	node     *store.Node
	rollCall *store.RollCall
}

const (
	// usualPods is the assumed number of pods of a node that has not reported it.
	usualPods = 110
	// mostPods is the largest number of pods that a node may report. slack is the number of
	// further VNIs that the node may hold: of ended pods, and of VPCs that it still follows.
	mostPods, slack = 1024, 64
)

// believed returns the VNIs of an answer that count, and the number of the other VNIs. VNIs of
// existing VPCs always count. A node can hold one other VNI for each pod that it had. Further
// VNIs do not count, because one stolen token could otherwise reserve every VNI forever.
func (a answer) believed(tx store.ReadTx) (vnis []uint32, surplus int) {
	quota := int(min(a.node.Pods, mostPods))
	if quota == 0 {
		quota = usualPods
	}
	quota += slack
	for _, vni := range a.rollCall.VNIs {
		switch {
		case store.VPCByVNI(tx, vni) != nil:
			vnis = append(vnis, vni)
		case quota > 0:
			vnis, quota = append(vnis, vni), quota-1
		default:
			surplus++
		}
	}
	return vnis, surplus
}

// Excess is the number of VNIs in a node's answer that do not count.
type Excess struct {
	Node    string
	Surplus int
}

// Excessive lists the known nodes whose answers exceed their quota.
func Excessive(tx store.ReadTx) []Excess {
	var all []Excess
	for _, a := range known(tx) {
		if _, surplus := a.believed(tx); surplus > 0 {
			all = append(all, Excess{Node: a.node.Name, Surplus: surplus})
		}
	}
	return all
}

// known lists the answers of the nodes that count: their Node object exists, is
// not fenced, and owns the answer.
func known(tx store.ReadTx) []answer {
	var all []answer
	for _, node := range store.ListNodes(tx) {
		rollCall := store.GetRollCall(tx, v1alpha1.NodeRollCall(node.Name))
		if rollCall != nil && rollCall.NodeUID == node.UID && !node.OutOfService {
			all = append(all, answer{node, rollCall})
		}
	}
	return all
}

// Silent lists the known nodes that have not answered a call, on request only the Ready ones.
func Silent(tx store.ReadTx, call string, readyOnly bool) []string {
	var names []string
	for _, a := range known(tx) {
		if a.rollCall.Call != call && (a.node.Ready || !readyOnly) {
			names = append(names, a.node.Name)
		}
	}
	return names
}

// NodesWith lists the known nodes whose answers hold a VNI and count.
func NodesWith(tx store.ReadTx, vni uint32) []string {
	var names []string
	for _, a := range known(tx) {
		if vnis, _ := a.believed(tx); slices.Contains(vnis, vni) {
			names = append(names, a.node.Name)
		}
	}
	return names
}

// HeldVNIs lists the VNIs in the replies of known nodes that count, with repetitions.
func HeldVNIs(tx store.ReadTx) []uint32 {
	var all []uint32
	for _, a := range known(tx) {
		vnis, _ := a.believed(tx)
		all = append(all, vnis...)
	}
	return all
}

// Rests reports whether the VPC of a claim is gone. The claim is deleted once the nodes
// have replied that they no longer use its VNI.
func Rests(tx store.ReadTx, claim *store.VNIClaim) bool {
	vpc := store.GetVPC(tx, claim.VPC)
	return vpc == nil || vpc.UID != claim.VPCUID
}

// Awaited returns the nodes that delay the release of a VNI: the nodes without a reply to the
// last call, and the nodes that use the VNI.
func Awaited(tx store.ReadTx, vni uint32) []string {
	names := NodesWith(tx, vni)
	if asked := store.GetRollCall(tx, v1alpha1.OperatorRollCall); asked != nil {
		names = append(names, Silent(tx, asked.Call, false)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Resting lists the claims that wait for nodes. If a VPC was deleted without its
// finalizer, its claim is not among them while the VPC has addresses: pods may still use
// the VNI, also on a node that does not reply to calls.
func Resting(tx store.ReadTx) []*store.VNIClaim {
	return slices.DeleteFunc(store.ListVNIClaims(tx), func(claim *store.VNIClaim) bool {
		return !Rests(tx, claim) ||
			store.GetVPC(tx, claim.VPC) == nil && len(store.AddressesByDomain(tx, claim.VPC)) > 0
	})
}

// Released lists the claims, among those that a call covers, whose VNI no known node
// uses any more, according to their replies to that call or a later one.
func Released(tx store.ReadTx, call string, covered map[string]bool) []*store.VNIClaim {
	if len(Silent(tx, call, false)) > 0 {
		return nil
	}
	return slices.DeleteFunc(Resting(tx), func(claim *store.VNIClaim) bool {
		return !covered[claim.UID] || len(NodesWith(tx, claim.VNI)) > 0
	})
}
