// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy has the rows of network policies of all kinds (docs/design/165). NetworkPolicy,
// ClusterNetworkPolicy and MultiNetworkPolicy become the same row, so one judgement serves them.
// It has the rows of PolicyIdentities too.
package policy

import (
	"net/netip"

	"github.com/alioth-net/alioth/store/memory"
)

// Kind is the kind of the object of a policy.
type Kind string

// Kinds of policies.
const (
	NetworkPolicy        Kind = "NetworkPolicy"
	ClusterNetworkPolicy Kind = "ClusterNetworkPolicy"
	MultiNetworkPolicy   Kind = "MultiNetworkPolicy"
)

// Tier is the group of policies that are asked together. A lower tier is asked first.
type Tier uint8

// Tiers, in their order.
const (
	Admin Tier = iota
	Namespaced
	Baseline
)

// Action is the effect of a rule on the packets that it matches.
type Action uint8

// Actions of rules.
const (
	Accept Action = iota + 1
	Deny
	Pass // to the next tier
)

// Direction is ingress or egress, an index into Policy.Rules.
type Direction uint8

// Directions of packets, as the pod of the policy sees them.
const (
	Ingress Direction = iota
	Egress
)

// String returns the name of the field of a policy's spec with the rules of a direction.
func (d Direction) String() string {
	if d == Egress {
		return "egress"
	}
	return "ingress"
}

// Key is the identity of a policy among all kinds.
type Key struct {
	Kind            Kind
	Namespace, Name string
}

// Policy is the row of a policy.
type Policy struct {
	memory.Meta
	Key
	Tier Tier
	// Priority orders the policies of a tier: the policy with the lower number comes first.
	Priority int32
	// Subject selects the pods that the policy applies to.
	Subject Pods
	// Networks are the networks outside of VPCs that a MultiNetworkPolicy applies to, as
	// "namespace/name". The other kinds apply to interfaces in VPCs.
	Networks []string
	// Isolates is true for a direction if the policy refuses packets that no policy of its tier
	// accepts.
	Isolates [2]bool
	// Rules are the rules by direction, in their order.
	Rules [2][]Rule
	// Problems are parts of the object that can't be enforced. They never allow anything.
	Problems []string
}

// Rule decides about packets that match one of its peers and one of its ports.
type Rule struct {
	// Name of the rule, "" without one.
	Name   string
	Action Action
	// Everyone is true for a rule that matches every peer. Peers is empty then.
	Everyone bool
	Peers    []Peer
	// Ports is empty for a rule that matches all protocols and ports.
	Ports []Ports
}

// Peer is a set of pods, or else a range of addresses.
type Peer struct {
	Pods  *Pods
	Block *Block
}

// Pods selects pods by their labels and the labels of their namespace.
type Pods struct {
	// Namespace is the only namespace of the pods; "" for all that Namespaces selects.
	Namespace  string
	Namespaces Selector
	Pods       Selector
}

// Block is a range of addresses without some parts.
type Block struct {
	CIDR   netip.Prefix
	Except []netip.Prefix
}

// Ports is a range of ports of a protocol, or a port by its name.
type Ports struct {
	// Protocol is TCP, UDP or SCTP; "" for the protocol that the named port has.
	Protocol string
	// First and Last are the ends of the range.
	First, Last uint16
	// Name of a port of the destination's containers; "" for the range.
	Name string
}

// Selector selects sets of labels that meet all of its requirements.
type Selector []Requirement

// Operator is the operator of a requirement.
type Operator uint8

// Operators of requirements.
const (
	In Operator = iota + 1
	NotIn
	Exists
	DoesNotExist
)

// Requirement is a condition on one label.
type Requirement struct {
	Key      string
	Operator Operator
	// Values of In and NotIn.
	Values []string
}
