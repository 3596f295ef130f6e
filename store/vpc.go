// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"net/netip"
	"slices"
)

// VPC is the row of a VPC object. Key: Name.
type VPC struct {
	Meta
	Name           string
	Prefixes       []netip.Prefix
	AllowedTenants []string
	// EgressMasquerade is spec.egress == Masquerade.
	EgressMasquerade bool
	// EgressAllow, if there are any, are the only destinations of egress; EgressDeny
	// are excluded, with precedence over EgressAllow.
	EgressAllow, EgressDeny []netip.Prefix
	// WantVNI is spec.vni, or 0.
	WantVNI uint32
	// VNI is status.vni: the claimed one, or 0. Unique among VPCs.
	VNI uint32
	// Ready is the status of the Ready condition.
	Ready bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

const byVNI = "vni"

var vpcs = define(table[VPC]{
	name: "vpc",
	key:  func(v *VPC) []byte { return textKey(v.Name) },
	meta: func(v *VPC) *Meta { return &v.Meta },
	indexes: map[string]func(*VPC) []byte{
		byVNI: func(v *VPC) []byte {
			if v.VNI == 0 {
				return nil
			}
			return vniKey(v.VNI)
		},
	},
})

// GetVPC returns the VPC of that name, or nil.
func GetVPC(tx ReadTx, name string) *VPC {
	return vpcs.get(tx, textKey(name))
}

// VPCByVNI returns the VPC that has the VNI, or nil. VNI 0 belongs to none.
func VPCByVNI(tx ReadTx, vni uint32) *VPC {
	for row := range vpcs.seq(tx, byVNI, vniKey(vni)) {
		return row
	}
	return nil
}

// ListVPCs returns all VPCs by name.
func ListVPCs(tx ReadTx) []*VPC {
	return slices.Collect(vpcs.all(tx))
}

// PutVPC inserts or replaces a VPC. It returns ErrConflict if another VPC has
// the VNI.
func PutVPC(tx Tx, row *VPC) error {
	held := GetVPC(tx, row.Name)
	what := vpcs.compare(row, held)
	if what == changeNone {
		return nil
	}
	if other := VPCByVNI(tx, row.VNI); other != nil && other.Name != row.Name {
		return fmt.Errorf("put VPC %s: VNI %d of VPC %s: %w", row.Name, row.VNI, other.Name, ErrConflict)
	}
	return vpcs.insert(tx, row, held, what)
}

// DeleteVPC removes a VPC if it has that UID, and reports whether it did.
func DeleteVPC(tx Tx, name, uid string) bool {
	return vpcs.remove(tx, textKey(name), uid) != nil
}
