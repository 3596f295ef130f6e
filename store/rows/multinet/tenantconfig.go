// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// TenantConfig is the row of a TenantConfig of either group. Key: (Name, Group).
type TenantConfig struct {
	store.Meta
	Group, Name string
	Devices     []HostDevice
	// NetworkIDs by network type in lower case.
	NetworkIDs map[string]string
	Ready      bool
	// Reason and Message of the Ready condition.
	Reason, Message string
	// Invalid is Network.Invalid.
	Invalid string
}

// HostDevice is a device of the nodes, or a pool of devices, that TenantNetworks may use.
type HostDevice struct {
	// Name has a slash if it names a pool (an extended resource).
	Name string
	// VNIType is VLAN or VXLAN, "" where networks use the device without a VNI.
	VNIType string
	// VNIs are the numbers for networks, in ascending order.
	VNIs []VNIRange
	// Tenants may use the entry; none means all of them.
	Tenants []string
	// Ranges have the addresses that networks may give; none means all addresses.
	Ranges []netip.Prefix
}

// Serves reports whether the entry is for a tenant.
func (d HostDevice) Serves(tenant string) bool {
	return len(d.Tenants) == 0 || slices.Contains(d.Tenants, tenant)
}

// Admits reports whether a network may have its ranges on the entry.
func (d HostDevice) Admits(net *Network) bool {
	if len(d.Ranges) == 0 {
		return true
	}
	for _, r := range net.Ranges() {
		if !slices.ContainsFunc(d.Ranges, func(all netip.Prefix) bool {
			return all.Bits() <= r.Prefix.Bits() && all.Contains(r.Prefix.Addr())
		}) {
			return false
		}
	}
	return true
}

// IsPool reports whether a name belongs to a pool of devices, and not to a device: the name of an
// extended resource has a slash, the name of a device has none.
func IsPool(name string) bool { return strings.Contains(name, "/") }

// VNIRange is a range of numbers, both ends included.
type VNIRange struct{ First, Last uint32 }

// Has reports whether a number of a type is for TenantNetworks on the device.
func (d HostDevice) Has(vniType string, vni uint32) bool {
	if d.VNIType != vniType {
		return false
	}
	for _, r := range d.VNIs {
		if r.First <= vni && vni <= r.Last {
			return true
		}
	}
	return false
}

var configs = memory.Define(memory.Table[TenantConfig]{
	Name: "tenantconfig",
	Key:  func(c *TenantConfig) []byte { return memory.TextKey(c.Name, c.Group) },
	Meta: func(c *TenantConfig) *store.Meta { return &c.Meta },
})

// GetTenantConfig returns the TenantConfig of a group and name, or nil.
func GetTenantConfig(tx store.ReadTx, group, name string) *TenantConfig {
	return configs.Get(tx, memory.TextKey(name, group))
}

// TenantsNumber returns why the number of a link is for TenantNetworks, as a predicate for
// messages; "" for one that is not. The readers may be other tenants, so the holder of the
// number is not named.
func TenantsNumber(tx store.ReadTx, id LinkID) string {
	if id == (LinkID{}) {
		return ""
	}
	if HostVNIClaimOf(tx, id.Type, id.VNI, id.Device) != nil {
		return "belongs to a TenantNetwork"
	}
	config := ServingTenantConfig(tx)
	if config != nil &&
		slices.ContainsFunc(
			config.Devices,
			func(d HostDevice) bool { return d.Name == id.Device && d.Has(id.Type, id.VNI) },
		) {
		return fmt.Sprintf("is in a range of TenantConfig %q, so it is for TenantNetworks", config.Name)
	}
	return ""
}

// ServingTenantConfig returns the TenantConfig that serves, the oldest of both groups, or
// nil. It need not be valid.
func ServingTenantConfig(tx store.ReadTx) *TenantConfig {
	for _, row := range configs.OldestFirst(tx, memory.Primary, []byte{}) {
		return row
	}
	return nil
}

// TenantConfigs yields all TenantConfigs by name.
func TenantConfigs(tx store.ReadTx) iter.Seq[*TenantConfig] { return configs.All(tx) }

// PutTenantConfig inserts or replaces a TenantConfig.
func PutTenantConfig(tx store.Tx, row *TenantConfig) error {
	_, err := configs.Put(tx, row)
	return err
}

// DeleteTenantConfig removes a TenantConfig if it has that UID, and reports whether it did.
func DeleteTenantConfig(tx store.Tx, group, name, uid string) bool {
	return configs.Remove(tx, memory.TextKey(name, group), uid) != nil
}
