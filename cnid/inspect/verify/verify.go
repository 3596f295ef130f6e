// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify compares the places that record the same fact: claims and pods in the
// API, each node's journal, its devices and its BPF maps. It is pure: the input is the
// data that was read, the output are the differences.
package verify

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/store"
)

// Kind is a kind of difference, the same in every release.
type Kind string

// allKinds lists all kinds, for the test that makes each of them.
func allKinds() []Kind {
	return []Kind{
		ObjectRefused, VNIUnclaimed, VNILeft, AddressLeft, AddressWaits, AddressMisplaced, AddressSetBroken, AddressOutside,
		AddressMissing, AnnotationDiffers, PodIPDiffers, NodeAddressMissing, NodeSilent, NodeUnprogrammed,
		NodeUnreadable, NotAttached, AttachmentLeft, AttachmentUnfinished, AttachmentTwice, AttachmentUnclaimed,
		AttachmentVNI, ReleasePending, DeviceMissing, DeviceLeft, SettingDiffers, InterfaceBroken, MapRowMissing, MapRowLeft,
		ProgramMissing, RoleWithoutMember, CachedRowLeft,
	}
}

// Difference is one fact that two places record differently, or that one of them lacks.
type Difference struct {
	Kind Kind `json:"kind"`
	// Node of the difference, or "" for the cluster as a whole.
	Node string `json:"node,omitempty"`
	// Subject names the object, attachment or row.
	Subject string `json:"subject"`
	// What describes the difference.
	What string `json:"what"`
	// Do is the remedy.
	Do string `json:"do"`
}

// String returns the difference as one line for people.
func (d Difference) String() string {
	where := d.Subject
	if d.Node != "" {
		where = d.Node + ": " + where
	}
	return fmt.Sprintf("%s: %s [%s]; %s", where, d.What, d.Kind, d.Do)
}

// SameAs reports whether two differences are the same at two times: the description may
// contain a number that changes.
func (d Difference) SameAs(other Difference) bool {
	return d.Kind == other.Kind && d.Node == other.Node && d.Subject == other.Subject
}

// Input is the data that was read, beside the store.
type Input struct {
	// Pods by UID, with the fields that the store's rows lack.
	Pods map[string]Pod
	// Nodes that were read. The others are not compared with their own state.
	Nodes []Node
	// Refused are objects that have no row in the store.
	Refused []Refused
}

// Refused is an object that is inconsistent, or contradicts another one.
type Refused struct {
	// Object is its kind and name.
	Object string
	Why    string
}

// Pod has the kubelet's report about a pod.
type Pod struct {
	// Running is true while its containers run.
	Running bool
	// IPs are the IPs of its status.
	IPs []netip.Addr
}

// Node is the reply of one node's daemon.
type Node struct {
	Name string
	// Dump is nil without a reply, and Silent has the cause.
	Dump   *nodestatus.Dump
	Silent string
}

// Compare returns all differences, by node, kind and subject; differences of the cluster come
// first.
func Compare(tx store.ReadTx, in Input) []Difference {
	c := &comparison{tx: tx, in: in, dumps: map[string]*nodestatus.Dump{}}
	for _, node := range in.Nodes {
		if node.Dump != nil {
			c.dumps[node.Name] = node.Dump
		}
	}
	for _, refused := range in.Refused {
		c.add(Difference{Kind: ObjectRefused, Subject: refused.Object, What: refused.Why, Do: "correct or delete the object"})
	}
	c.vnis()
	c.addresses()
	c.externalAddresses()
	c.pods()
	for _, node := range in.Nodes {
		c.node(node)
	}
	slices.SortFunc(c.found, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
	return c.found
}

// comparison collects the differences.
type comparison struct {
	tx store.ReadTx
	in Input
	// dumps of the nodes that have answered, by name.
	dumps map[string]*nodestatus.Dump
	found []Difference
}

func (c *comparison) add(d Difference) { c.found = append(c.found, d) }

// attachments returns a pod's records on a node, and whether the node has
// answered.
func (c *comparison) attachments(node, podUID string) (records []nodestatus.Attachment, known bool) {
	dump := c.dumps[node]
	if dump == nil {
		return nil, false
	}
	for _, rec := range dump.Attachments {
		if rec.Pod.UID == podUID {
			records = append(records, rec)
		}
	}
	return records, true
}
