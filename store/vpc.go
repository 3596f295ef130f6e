// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store/memory"
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
	// Dividers is spec.dividers, or 0.
	Dividers int
	// RolesRevision is the last revision that was taken for its role members, or 0.
	RolesRevision int64
	// Ready is the status of the Ready condition.
	Ready bool
	// Reason and Message of the Ready condition.
	Reason, Message string
}

const byVNI = "vni"

var vpcs = memory.Define(memory.Table[VPC]{
	Name: "vpc",
	Key:  func(v *VPC) []byte { return memory.TextKey(v.Name) },
	Meta: func(v *VPC) *Meta { return &v.Meta },
	Indexes: map[string]func(*VPC) []byte{
		byVNI: func(v *VPC) []byte {
			if v.VNI == 0 {
				return nil
			}
			return memory.NumberKey(v.VNI)
		},
	},
})

// GetVPC returns the VPC of that name, or nil.
func GetVPC(tx ReadTx, name string) *VPC {
	return vpcs.Get(tx, memory.TextKey(name))
}

// VPCByVNI returns the VPC that has the VNI, or nil. VNI 0 belongs to none.
func VPCByVNI(tx ReadTx, vni uint32) *VPC {
	for row := range vpcs.Seq(tx, byVNI, memory.NumberKey(vni)) {
		return row
	}
	return nil
}

// ListVPCs returns all VPCs by name.
func ListVPCs(tx ReadTx) []*VPC {
	return slices.Collect(vpcs.All(tx))
}

// PutVPC inserts or replaces a VPC. It returns ErrConflict if another VPC has
// the VNI.
func PutVPC(tx Tx, row *VPC) error {
	held := GetVPC(tx, row.Name)
	what := vpcs.Compare(row, held)
	if what == memory.Same {
		return nil
	}
	if other := VPCByVNI(tx, row.VNI); other != nil && other.Name != row.Name {
		return fmt.Errorf("put VPC %s: VNI %d of VPC %s: %w", row.Name, row.VNI, other.Name, ErrConflict)
	}
	return vpcs.Insert(tx, row, held, what)
}

// DeleteVPC removes a VPC if it has that UID, and reports whether it did.
func DeleteVPC(tx Tx, name, uid string) bool {
	return vpcs.Remove(tx, memory.TextKey(name), uid) != nil
}

// VNIClaim is the row of a VNIClaim object. Key: VNI.
type VNIClaim struct {
	Meta
	VNI    uint32
	VPC    string
	VPCUID string
}

const byVPCUID = "vpcuid"

var vniClaims = memory.Define(memory.Table[VNIClaim]{
	Name: "vniclaim",
	Key:  func(c *VNIClaim) []byte { return memory.NumberKey(c.VNI) },
	Meta: func(c *VNIClaim) *Meta { return &c.Meta },
	Indexes: map[string]func(*VNIClaim) []byte{
		byVPCUID: func(c *VNIClaim) []byte { return memory.TextKey(c.VPCUID) },
	},
})

// GetVNIClaim returns the claim of a VNI, or nil.
func GetVNIClaim(tx ReadTx, vni uint32) *VNIClaim {
	return vniClaims.Get(tx, memory.NumberKey(vni))
}

// VNIClaimsByVPCUID returns the claims that the VPC of that UID holds, lowest
// VNI first.
func VNIClaimsByVPCUID(tx ReadTx, uid string) []*VNIClaim {
	return vniClaims.List(tx, byVPCUID, memory.TextKey(uid))
}

// ListVNIClaims returns all claims, lowest VNI first.
func ListVNIClaims(tx ReadTx) []*VNIClaim {
	return slices.Collect(vniClaims.All(tx))
}

// PutVNIClaim inserts or replaces a claim.
func PutVNIClaim(tx Tx, row *VNIClaim) error {
	_, err := vniClaims.Put(tx, row)
	return err
}

// DeleteVNIClaim removes a claim if it has that UID, and reports whether it
// did.
func DeleteVNIClaim(tx Tx, vni uint32, uid string) bool {
	return vniClaims.Remove(tx, memory.NumberKey(vni), uid) != nil
}
