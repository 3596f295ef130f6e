// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"
)

// ServiceCIDR is the row of a ServiceCIDR: ranges out of which ClusterIPs are. Key:
// Name.
type ServiceCIDR struct {
	Meta
	Name     string
	Prefixes []netip.Prefix
}

var serviceCIDRs = define(table[ServiceCIDR]{
	name: "servicecidr",
	key:  func(c *ServiceCIDR) []byte { return textKey(c.Name) },
	meta: func(c *ServiceCIDR) *Meta { return &c.Meta },
})

// GetServiceCIDR returns the ServiceCIDR of that name, or nil.
func GetServiceCIDR(tx ReadTx, name string) *ServiceCIDR {
	return serviceCIDRs.get(tx, textKey(name))
}

// ListServiceCIDRs returns all ServiceCIDRs by name.
func ListServiceCIDRs(tx ReadTx) []*ServiceCIDR {
	return slices.Collect(serviceCIDRs.all(tx))
}

// PutServiceCIDR inserts or replaces a ServiceCIDR.
func PutServiceCIDR(tx Tx, row *ServiceCIDR) error {
	_, err := serviceCIDRs.put(tx, row)
	return err
}

// DeleteServiceCIDR removes a ServiceCIDR if it has that UID, and reports whether it
// did.
func DeleteServiceCIDR(tx Tx, name, uid string) bool {
	return serviceCIDRs.remove(tx, textKey(name), uid) != nil
}
