// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store/memory"
)

// ServiceCIDR is the row of a ServiceCIDR: ranges of ClusterIPs. Key: Name.
type ServiceCIDR struct {
	Meta
	Name     string
	Prefixes []netip.Prefix
}

var serviceCIDRs = memory.Define(memory.Table[ServiceCIDR]{
	Name: "servicecidr",
	Key:  func(c *ServiceCIDR) []byte { return memory.TextKey(c.Name) },
	Meta: func(c *ServiceCIDR) *Meta { return &c.Meta },
})

// GetServiceCIDR returns the ServiceCIDR of that name, or nil.
func GetServiceCIDR(tx ReadTx, name string) *ServiceCIDR {
	return serviceCIDRs.Get(tx, memory.TextKey(name))
}

// ListServiceCIDRs returns all ServiceCIDRs by name.
func ListServiceCIDRs(tx ReadTx) []*ServiceCIDR {
	return slices.Collect(serviceCIDRs.All(tx))
}

// PutServiceCIDR inserts or replaces a ServiceCIDR.
func PutServiceCIDR(tx Tx, row *ServiceCIDR) error {
	_, err := serviceCIDRs.Put(tx, row)
	return err
}

// DeleteServiceCIDR removes a ServiceCIDR if it has that UID, and reports whether it
// did.
func DeleteServiceCIDR(tx Tx, name, uid string) bool {
	return serviceCIDRs.Remove(tx, memory.TextKey(name), uid) != nil
}
