// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"iter"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// PodConfig is the row of a MultitenantPodNetworkConfig of either group. It reports, and
// nothing is decided by it. Key: (Namespace, Name, Group).
type PodConfig struct {
	store.Meta
	Ref
	// PodUID is the UID of the pod, which owns the config; "" without such an owner. The
	// pod has the config's name.
	PodUID string
	// PodNetwork and Instance are the names in the pod's request; Instance may be "".
	PodNetwork, Instance string
	// Status is status.status, in the words of the group.
	Status string
}

var podConfigs = memory.Define(memory.Table[PodConfig]{
	Name: "podnetworkconfig",
	Key:  func(c *PodConfig) []byte { return c.key() },
	Meta: func(c *PodConfig) *store.Meta { return &c.Meta },
})

// GetPodConfig returns a config of a group, or nil.
func GetPodConfig(tx store.ReadTx, ref Ref) *PodConfig { return podConfigs.Get(tx, ref.key()) }

// PodConfigs yields all configs, by namespace and name.
func PodConfigs(tx store.ReadTx) iter.Seq[*PodConfig] { return podConfigs.All(tx) }

// PutPodConfig inserts or replaces a config.
func PutPodConfig(tx store.Tx, row *PodConfig) error {
	_, err := podConfigs.Put(tx, row)
	return err
}

// DeletePodConfig removes a config if it has that UID, and reports whether it did.
func DeletePodConfig(tx store.Tx, ref Ref, uid string) bool {
	return podConfigs.Remove(tx, ref.key(), uid) != nil
}
