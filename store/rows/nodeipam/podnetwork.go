// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"iter"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// Ref names an object in its API group. Namespace is "" for a PodNetwork and a NodeInfo.
type Ref struct{ Group, Namespace, Name string }

// Reference returns the Ref of a row, in place.
func (r *Ref) Reference() *Ref { return r }

func (r Ref) key() []byte { return memory.TextKey(r.Namespace, r.Name, r.Group) }

// PodNetwork is the row of a PodNetwork of either group. Key: (Name, Group).
type PodNetwork struct {
	store.Meta
	Ref
	// VPC is the name of a VPC, and Subnet the name of a subnet in it; "" for none. Neither needs
	// to exist.
	VPC, Subnet string
	// SubnetGUID and SubnetResourceID are the texts of the spec, for other programs.
	SubnetGUID, SubnetResourceID string
	// Invalid describes wishes of the object that it can't have, although the schema lets them
	// pass; "" for none.
	Invalid string
	// MaxReserved is the highest number of addresses that all instances together may
	// reserve.
	MaxReserved int
	// Ready is status.status being Ready or InUse.
	Ready bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

const byVPC = "vpc"

var podNetworks = memory.Define(memory.Table[PodNetwork]{
	Name: "podnetwork",
	Key:  func(n *PodNetwork) []byte { return n.key() },
	Meta: func(n *PodNetwork) *store.Meta { return &n.Meta },
	Indexes: map[string]func(*PodNetwork) []byte{
		byVPC: func(n *PodNetwork) []byte { return memory.TextKey(n.VPC, n.Name, n.Group) },
	},
})

// Describe returns the command that shows a PodNetwork. With two groups in a cluster, a short
// name of the kind may mean the kind of the other group.
func (n *PodNetwork) Describe() string {
	return "kubectl describe podnetworks." + n.Group + " " + n.Name
}

// GetPodNetwork returns a PodNetwork of a group, or nil.
func GetPodNetwork(tx store.ReadTx, ref Ref) *PodNetwork { return podNetworks.Get(tx, ref.key()) }

// ServingPodNetwork returns the PodNetwork that serves under a name, or nil. If several groups
// have one, it returns the oldest.
func ServingPodNetwork(tx store.ReadTx, name string) *PodNetwork {
	return first(podNetworks.OldestFirst(tx, memory.Primary, memory.TextKey("", name)))
}

// PodNetworksOfVPC lists the PodNetworks that name a VPC, by name.
func PodNetworksOfVPC(tx store.ReadTx, vpc string) []*PodNetwork {
	return podNetworks.List(tx, byVPC, memory.TextKey(vpc))
}

// PodNetworks yields all PodNetworks, by name.
func PodNetworks(tx store.ReadTx) iter.Seq[*PodNetwork] { return podNetworks.All(tx) }

// PutPodNetwork inserts or replaces a PodNetwork.
func PutPodNetwork(tx store.Tx, row *PodNetwork) error {
	_, err := podNetworks.Put(tx, row)
	return err
}

// DeletePodNetwork removes a PodNetwork if it has that UID, and reports whether it did.
func DeletePodNetwork(tx store.Tx, ref Ref, uid string) bool {
	return podNetworks.Remove(tx, ref.key(), uid) != nil
}

// first returns the first of some rows, or nil.
func first[R any](rows []*R) *R {
	if len(rows) == 0 {
		return nil
	}
	return rows[0]
}
