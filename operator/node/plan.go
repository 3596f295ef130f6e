// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// decision is the next step for the addresses of one node.
type decision struct {
	// release lists addresses of a deleted node of that name.
	release []*store.Address
	// claim is true if the addresses of request are to be claimed.
	claim   bool
	request ipam.Request
	// doubts are the reasons why others do not believe addresses of the node. uid is the UID of the
	// node.
	uid    string
	doubts []*tenancy.Refusal
}

// decide plans for the node of a name. While the default VPC can't be used, it claims nothing and
// returns no error: the VPC's own condition has the cause.
func decide(tx store.ReadTx, name, defaultVPC string) decision {
	var d decision
	node := store.GetNode(tx, name)
	var own []*store.Address
	for _, address := range store.AddressesByNode(tx, name) {
		switch {
		case address.Holder.Kind != store.HolderNode:
		case node == nil || address.Holder.UID != node.UID:
			d.release = append(d.release, address)
		default:
			own = append(own, address)
		}
	}
	d.uid, d.doubts = doubtsOf(tx, node, defaultVPC)
	if node == nil || node.Deleting || settled(tx, own) || !usable(tx, defaultVPC) {
		return d
	}
	d.claim = true
	d.request = ipam.Request{
		VPC: defaultVPC, Node: name, Attachment: v1alpha1.NodeAttachment,
		Holder: store.Holder{Kind: store.HolderNode, Name: name, UID: node.UID},
	}
	return d
}

// mostDoubts is how many addresses of a node are reported: a kubelet may report any number.
const mostDoubts = 3

// doubtsOf returns the UID of a node, and the reasons why others do not believe its addresses.
func doubtsOf(tx store.ReadTx, node *store.Node, defaultVPC string) (uid string, doubts []*tenancy.Refusal) {
	if node == nil {
		return "", nil
	}
	nodes, vpc := store.NodesByAddress(tx), store.GetVPC(tx, defaultVPC)
	if n := node.IgnoredAddresses; n > 0 {
		doubts = append(
			doubts,
			doubt(
				fmt.Sprintf(
					"the kubelet reports %d addresses, of which the last %d do not count: let it report fewer",
					len(node.AllAddresses)+n,
					n,
				),
			),
		)
	}
	for _, ip := range node.Reported() {
		if text := store.DoubtedAddress(tx, nodes, vpc, node, ip); text != "" && len(doubts) < mostDoubts {
			doubts = append(doubts, doubt(text))
		}
	}
	return node.UID, doubts
}

func doubt(text string) *tenancy.Refusal {
	return &tenancy.Refusal{Reason: v1alpha1.NodeAddressDoubtedReason, Message: text}
}

// settled reports whether a node has exactly one complete set of addresses. Two
// operators at once may have created two sets.
func settled(tx store.ReadTx, own []*store.Address) bool {
	return len(own) > 0 && len(own) == len(own[0].Set) && whole(tx, own[0])
}

// whole reports whether every address of the set exists.
func whole(tx store.ReadTx, address *store.Address) bool {
	for _, ip := range address.Set {
		row := store.AddressByIP(tx, address.VPC, ip)
		if row == nil || row.UID == "" || row.Holder.UID != address.Holder.UID {
			return false
		}
	}
	return true
}

func usable(tx store.ReadTx, name string) bool {
	vpc := store.GetVPC(tx, name)
	if vpc == nil || !vpc.Ready || vpc.VNI == 0 || vpc.Deleting {
		return false
	}
	for _, subnet := range store.SubnetsByVPC(tx, name) {
		if subnet.Ready && !subnet.Deleting {
			return true
		}
	}
	return false
}
