// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/descriptor"
)

// VPC is the kind of a virtual private cloud.
var VPC = define(descriptor.Description[*v1alpha1.VPC, store.VPC]{
	Name: "VPC", Object: &v1alpha1.VPC{}, List: &v1alpha1.VPCList{}, Convert: convertVPC,
	Table: descriptor.ByName(store.GetVPC, store.PutVPC, store.DeleteVPC),
	Verdict: func(row *store.VPC) descriptor.Verdict {
		return descriptor.Verdict{ID: descriptor.ID{Name: row.Name, UID: row.UID}, Ready: row.Ready, Reason: row.Reason, Message: row.Message}
	},
	Rows:   descriptor.Listed(store.ListVPCs),
	OnNode: descriptor.Everything,
})

// convertVPC converts a VPC. It returns an error where a range can't be read, which
// the schema refuses.
func convertVPC(in *v1alpha1.VPC) (*store.VPC, error) {
	prefixes, err := parsePrefixes(in.Spec.CIDRs)
	if err != nil {
		return nil, fmt.Errorf("convert VPC %s: %w", in.Name, err)
	}
	allow, err := parsePrefixes(in.Spec.EgressAllow)
	if err != nil {
		return nil, fmt.Errorf("convert egressAllow of VPC %s: %w", in.Name, err)
	}
	deny, err := parsePrefixes(in.Spec.EgressDeny)
	if err != nil {
		return nil, fmt.Errorf("convert egressDeny of VPC %s: %w", in.Name, err)
	}
	row := &store.VPC{
		Meta:             rowMeta(in),
		Name:             in.Name,
		Prefixes:         prefixes,
		AllowedTenants:   slices.Clone(in.Spec.AllowedTenants),
		EgressMasquerade: in.Spec.Egress == v1alpha1.EgressMasquerade,
		EgressAllow:      allow,
		EgressDeny:       deny,
		VNI:              uint32(in.Status.VNI),
	}
	if in.Spec.VNI != nil {
		row.WantVNI = uint32(*in.Spec.VNI)
	}
	row.Ready, row.Reason, row.Message = readiness(in.Status.Conditions)
	return row, nil
}

// VNIClaim is the kind of a VNI that a VPC holds; nodes go by the VPC's status.
var VNIClaim = define(descriptor.Description[*v1alpha1.VNIClaim, store.VNIClaim]{
	Name: "VNIClaim", Object: &v1alpha1.VNIClaim{}, List: &v1alpha1.VNIClaimList{}, Convert: convertVNIClaim,
	Table: byNumber("vni-", store.GetVNIClaim, store.PutVNIClaim, store.DeleteVNIClaim),
})

// byNumber is a table whose rows are found by the number behind the prefix of the object's
// name, to which validation ties it. 0 has no row.
func byNumber[R any](
	prefix string, get func(store.ReadTx, uint32) *R, put func(store.Tx, *R) error, remove func(store.Tx, uint32, string) bool,
) descriptor.Table[R] {
	number := func(id descriptor.ID) uint32 {
		number, _ := strconv.ParseUint(strings.TrimPrefix(id.Name, prefix), 10, 32)
		return uint32(number)
	}
	return descriptor.Table[R]{
		Get:    func(tx store.ReadTx, id descriptor.ID) *R { return get(tx, number(id)) },
		Put:    put,
		Remove: func(tx store.Tx, id descriptor.ID) { remove(tx, number(id), id.UID) },
	}
}

// convertVNIClaim converts a VNIClaim. It never fails.
func convertVNIClaim(in *v1alpha1.VNIClaim) (*store.VNIClaim, error) {
	return &store.VNIClaim{
		Meta:   rowMeta(in),
		VNI:    uint32(in.Spec.VNI),
		VPC:    in.Spec.VPC,
		VPCUID: in.Spec.VPCUID,
	}, nil
}

func parsePrefixes(texts []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}
