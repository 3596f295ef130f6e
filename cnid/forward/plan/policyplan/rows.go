// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policyplan plans the rows of network policies on one node, as Go values
// (docs/design/165). It is pure. A Planner takes single changes of policies, namespaces, identities
// and interfaces. It compiles the sets that a change can alter, and keeps the others.
//
// A set has a number in its VPC, and its rows change only with their own peers: a new identity adds
// rows, a deleted identity takes rows away. A set that becomes different gets a new number, so that
// the guards swap it at once. Numbers are never used twice by a Planner.
//
// Nothing programs these rows yet.
package policyplan

import (
	"net/netip"

	rows "github.com/alioth-net/alioth/store/rows/policy"
	"github.com/alioth-net/alioth/store/rules/policy"
	"github.com/alioth-net/alioth/store/rules/policy/compile"
)

// Part has the rows of one VPC. A part, and each of its sets and lists, keeps its pointer until it
// changes, and must not be changed.
type Part struct {
	VNI uint32
	// Guards are the sets of the interfaces, by ifindex.
	Guards map[int]Guard
	// Known are the identities that packets of the VPC may have: the peers of set 0.
	Known []uint32
	// Addresses are the identities of the peers, for egress.
	Addresses map[netip.Addr]uint32
	Sets      []*Set
	Lists     []*List
	// Delays are the guards that are not as policies want them.
	Delays []Delay
	// Unfit counts the identities and addresses that have no rows, because the VPC has no room.
	Unfit int
}

// Guard has the sets of an interface by direction. Rehearsed is zero where no rehearsed policy
// selects the pod.
type Guard struct{ Enforced, Rehearsed [2]Guarded }

// Guarded is a set with its isolation. Set is 0 in a direction that is not judged.
type Guarded struct {
	Set      uint32
	Isolated bool
}

// Set has the rows of a set.
type Set struct {
	Number uint32
	Peers  []Peer
	Nets   []Net
	// Causes are the rules by rank, from rank 1 on, and Isolation is the policy that isolates.
	Causes    []policy.Cause
	Isolation *policy.Cause
}

// Peer is the row of a peer. Shared is true for a backend of a shared service.
type Peer struct {
	Shared   bool
	Identity uint32
	List     uint32
}

// Net is the row of a range of addresses, in the form of compile.Net. List is 0 for none.
type Net struct {
	Prefix netip.Prefix
	List   uint32
}

// List has the rows of a list.
type List struct {
	Number uint32
	Ports  []compile.Ports
}

// Delay tells why an interface keeps a set that policies have replaced, or has none.
type Delay struct {
	Ifindex   int
	Direction rows.Direction
	Rehearsed bool
	Reason    Reason
	// Policies are the policies that wait.
	Policies []rows.Key
	// Without is true if the guard has no older set: the pod has to wait.
	Without bool
}

// Reason is the reason of a Delay.
type Reason string

// Reasons of delays.
const (
	// UnknownIdentity: the node has not read the identity of the interface.
	UnknownIdentity Reason = "UnknownIdentity"
	// OmittedKey: a selector asks for a label that an identity lacks.
	OmittedKey Reason = "OmittedKey"
	// TooLarge: the rows exceed the quota of the VPC.
	TooLarge Reason = "TooLarge"
)

// Size counts rows by map.
type Size struct{ Peers, Nets, Ports, Addresses int }

// Quota is the number of rows that a VPC may have: a quarter of each map.
var Quota = Size{Peers: 1_048_576 / 4, Nets: 262_144 / 4, Ports: 524_288 / 4, Addresses: 262_144 / 4}

// within reports whether no map has more rows than another Size has.
func (s Size) within(most Size) bool {
	return s.Peers <= most.Peers && s.Nets <= most.Nets && s.Ports <= most.Ports && s.Addresses <= most.Addresses
}
