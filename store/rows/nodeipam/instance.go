// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"iter"
	"net/netip"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// Interface is an interface that each pod of an instance gets.
type Interface struct {
	// PodNetwork is the name of a PodNetwork, which need not exist.
	PodNetwork string
	// Reserve is the number of addresses to reserve.
	Reserve int
	// IP is the address to reserve if Reserve is 1; not valid for any.
	IP netip.Addr
}

// Reserved is the addresses that an instance has reserved in a PodNetwork.
type Reserved struct {
	PodNetwork string
	// VPC is the name of the addresses' VPC, which is their domain.
	VPC string
	IPs []netip.Addr
}

// Instance is the row of a PodNetworkInstance of either group. Key: (Namespace, Name, Group).
type Instance struct {
	store.Meta
	Ref
	// Interfaces of each pod, in order.
	Interfaces []Interface
	// DefaultDeny is handed on to the CNI plugin of the pods.
	DefaultDeny bool
	// Reserved is by the status.
	Reserved []Reserved
	// Ready is status.status being Ready.
	Ready bool
	// Reason and Message of the Ready condition.
	Reason, Message string
	// Invalid describes a value that can't be used although the schema lets it pass, ""
	// for none. Such a value is left out.
	Invalid string
}

// Describe returns the command that shows an instance, like PodNetwork.Describe.
func (i *Instance) Describe() string {
	return "kubectl describe podnetworkinstances." + i.Group + " " + i.Name + " -n " + i.Namespace
}

var instances = memory.Define(memory.Table[Instance]{
	Name: "podnetworkinstance",
	Key:  func(i *Instance) []byte { return i.key() },
	Meta: func(i *Instance) *store.Meta { return &i.Meta },
})

// GetInstance returns an instance of a group, or nil.
func GetInstance(tx store.ReadTx, ref Ref) *Instance { return instances.Get(tx, ref.key()) }

// ServingInstance returns the instance that serves under a name in a namespace, or nil. If
// several groups have one, it returns the oldest.
func ServingInstance(tx store.ReadTx, namespace, name string) *Instance {
	return first(instances.OldestFirst(tx, memory.Primary, memory.TextKey(namespace, name)))
}

// Instances yields all instances, by namespace and name.
func Instances(tx store.ReadTx) iter.Seq[*Instance] { return instances.All(tx) }

// Older reports whether an instance precedes another one: by creation, then name.
func (i *Instance) Older(other *Instance) bool { return instances.ByAge(i, other) < 0 }

// PutInstance inserts or replaces an instance with its reservations. A version that the
// store has already changes nothing, because that one may have assumed reservations.
func PutInstance(tx store.Tx, row *Instance) error {
	held := instances.Get(tx, row.key())
	if held != nil && row.ResourceVersion != "" && held.UID == row.UID && held.ResourceVersion == row.ResourceVersion {
		return nil
	}
	return putInstance(tx, row, held)
}

// AssumeReserved gives an instance the reservations that its next status has, so that
// nobody else chooses these addresses. They stay until the store gets another version of
// the object.
func AssumeReserved(tx store.Tx, row *Instance, reserved []Reserved) error {
	assumed := *row
	assumed.Reserved = reserved
	return putInstance(tx, &assumed, instances.Get(tx, row.key()))
}

// AssumeCondition gives an instance a reason and a message that the API does not keep. They
// stay until the store gets another version of the object.
func AssumeCondition(tx store.Tx, row *Instance, reason, message string) error {
	assumed := *row
	assumed.Reason, assumed.Message = reason, message
	return putInstance(tx, &assumed, instances.Get(tx, row.key()))
}

func putInstance(tx store.Tx, row, held *Instance) error {
	what := instances.Compare(row, held)
	if what == memory.NewContent {
		dropReservations(tx, held)
		if err := addReservations(tx, row); err != nil {
			return err
		}
	}
	return instances.Insert(tx, row, held, what)
}

// DeleteInstance removes an instance with its reservations if it has that UID, and reports
// whether it did.
func DeleteInstance(tx store.Tx, ref Ref, uid string) bool {
	held := instances.Remove(tx, ref.key(), uid)
	dropReservations(tx, held)
	return held != nil
}
