// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"iter"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// HostVNIClaim is the row of a HostVNIClaim object. Key: Name, which has type, number and
// device.
type HostVNIClaim struct {
	store.Meta
	Name string
	// Type is VLAN or VXLAN.
	Type   string
	VNI    uint32
	Device string
	// Network holds the number, with its UID.
	Network    Ref
	NetworkUID string
}

const (
	byDevice     = "device"
	byNetworkUID = "networkuid"
)

var hostVNIClaims = memory.Define(memory.Table[HostVNIClaim]{
	Name: "hostvniclaim",
	Key:  func(c *HostVNIClaim) []byte { return memory.TextKey(c.Name) },
	Meta: func(c *HostVNIClaim) *store.Meta { return &c.Meta },
	Indexes: map[string]func(*HostVNIClaim) []byte{
		byDevice: func(c *HostVNIClaim) []byte {
			return append(memory.TextKey(c.Device, c.Type), memory.NumberKey(c.VNI)...)
		},
		byNetworkUID: func(c *HostVNIClaim) []byte { return memory.TextKey(c.NetworkUID) },
	},
})

// GetHostVNIClaim returns the claim of that name, or nil.
func GetHostVNIClaim(tx store.ReadTx, name string) *HostVNIClaim {
	return hostVNIClaims.Get(tx, memory.TextKey(name))
}

// HostVNIClaimOf returns the claim of a number, or nil.
func HostVNIClaimOf(tx store.ReadTx, vniType string, vni uint32, device string) *HostVNIClaim {
	for row := range hostVNIClaims.Seq(tx, byDevice, append(memory.TextKey(device, vniType), memory.NumberKey(vni)...)) {
		return row
	}
	return nil
}

// HostVNIClaimsOn returns the claims of a type on a device, lowest number first.
func HostVNIClaimsOn(tx store.ReadTx, vniType, device string) []*HostVNIClaim {
	return hostVNIClaims.List(tx, byDevice, memory.TextKey(device, vniType))
}

// HostVNIClaimsByNetwork returns the claims that the network of that UID holds, by name.
func HostVNIClaimsByNetwork(tx store.ReadTx, uid string) []*HostVNIClaim {
	return hostVNIClaims.List(tx, byNetworkUID, memory.TextKey(uid))
}

// HostVNIClaims yields all claims by name.
func HostVNIClaims(tx store.ReadTx) iter.Seq[*HostVNIClaim] { return hostVNIClaims.All(tx) }

// PutHostVNIClaim inserts or replaces a claim.
func PutHostVNIClaim(tx store.Tx, row *HostVNIClaim) error {
	_, err := hostVNIClaims.Put(tx, row)
	return err
}

// DeleteHostVNIClaim removes a claim if it has that UID, and reports whether it did.
func DeleteHostVNIClaim(tx store.Tx, name, uid string) bool {
	return hostVNIClaims.Remove(tx, memory.TextKey(name), uid) != nil
}
