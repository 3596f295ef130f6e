// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

// VNIClaim is the row of a VNIClaim object. Key: VNI.
type VNIClaim struct {
	Meta
	VNI    uint32
	VPC    string
	VPCUID string
}

const byVPCUID = "vpcuid"

var vniClaims = define(table[VNIClaim]{
	name: "vniclaim",
	key:  func(c *VNIClaim) []byte { return vniKey(c.VNI) },
	meta: func(c *VNIClaim) *Meta { return &c.Meta },
	indexes: map[string]func(*VNIClaim) []byte{
		byVPCUID: func(c *VNIClaim) []byte { return textKey(c.VPCUID) },
	},
})

// GetVNIClaim returns the claim of a VNI, or nil.
func GetVNIClaim(tx ReadTx, vni uint32) *VNIClaim {
	return vniClaims.get(tx, vniKey(vni))
}

// VNIClaimsByVPCUID returns the claims that the VPC of that UID holds, lowest
// VNI first.
func VNIClaimsByVPCUID(tx ReadTx, uid string) []*VNIClaim {
	return vniClaims.list(tx, byVPCUID, textKey(uid))
}

// ListVNIClaims returns all claims, lowest VNI first.
func ListVNIClaims(tx ReadTx) []*VNIClaim {
	return slices.Collect(vniClaims.all(tx))
}

// PutVNIClaim inserts or replaces a claim.
func PutVNIClaim(tx Tx, row *VNIClaim) error {
	_, err := vniClaims.put(tx, row)
	return err
}

// DeleteVNIClaim removes a claim if it has that UID, and reports whether it
// did.
func DeleteVNIClaim(tx Tx, vni uint32, uid string) bool {
	return vniClaims.remove(tx, vniKey(vni), uid) != nil
}
