// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
)

// VPC is the kind of a virtual private cloud. A node follows the VPCs that it has interfaces in,
// and the VPCs with Services that clients outside reach.
var VPC = descriptor.Define(&all, descriptor.Description[*v1alpha1.VPC, store.VPC]{
	Name: "VPC", Object: &v1alpha1.VPC{}, List: &v1alpha1.VPCList{}, Convert: convertVPC,
	Table: descriptor.ByName(store.GetVPC, store.PutVPC, store.DeleteVPC),
	Verdict: func(row *store.VPC) descriptor.Verdict {
		return descriptor.Verdict{
			ID:      descriptor.ID{Name: row.Name, UID: row.UID},
			Ready:   row.Ready,
			Reason:  row.Reason,
			Message: row.Message,
		}
	},
	Rows: descriptor.Listed(store.ListVPCs),
	Of: descriptor.Scopes{
		descriptor.CarriedVPC: descriptor.WithField(
			"metadata.name",
		), descriptor.DescribedVPC: descriptor.WithField("metadata.name"),
		descriptor.ExposedVPC: descriptor.WithField("metadata.name"),
	},
})

// convertVPC converts a VPC. It returns an error where a value can't be read, which
// the schema refuses.
func convertVPC(in *v1alpha1.VPC) (*store.VPC, error) {
	if err := values.Known("spec.egress", in.Spec.Egress, v1alpha1.EgressNone, v1alpha1.EgressMasquerade); err != nil {
		return nil, fmt.Errorf("convert VPC %s: %w", in.Name, err)
	}
	prefixes, err := values.Prefixes(in.Spec.CIDRs)
	if err != nil {
		return nil, fmt.Errorf("convert VPC %s: %w", in.Name, err)
	}
	allow, err := values.Prefixes(in.Spec.EgressAllow)
	if err != nil {
		return nil, fmt.Errorf("convert egressAllow of VPC %s: %w", in.Name, err)
	}
	deny, err := values.Prefixes(in.Spec.EgressDeny)
	if err != nil {
		return nil, fmt.Errorf("convert egressDeny of VPC %s: %w", in.Name, err)
	}
	row := &store.VPC{
		Meta:             values.Meta(in),
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
	if in.Spec.Dividers != nil {
		row.Dividers = int(*in.Spec.Dividers)
	}
	row.RolesRevision = in.Status.RolesRevision
	row.Ready, row.Reason, row.Message = values.Readiness(in.Status.Conditions)
	return row, nil
}

// VNIClaim is the kind of a VNI that a VPC holds; nodes go by the VPC's status.
var VNIClaim = descriptor.Define(&all, descriptor.Description[*v1alpha1.VNIClaim, store.VNIClaim]{
	Name: "VNIClaim", Object: &v1alpha1.VNIClaim{}, List: &v1alpha1.VNIClaimList{}, Convert: convertVNIClaim,
	Table: descriptor.ByNumber("vni-", store.GetVNIClaim, store.PutVNIClaim, store.DeleteVNIClaim),
})

// convertVNIClaim converts a VNIClaim. It never fails.
func convertVNIClaim(in *v1alpha1.VNIClaim) (*store.VNIClaim, error) {
	return &store.VNIClaim{
		Meta:   values.Meta(in),
		VNI:    uint32(in.Spec.VNI),
		VPC:    in.Spec.VPC,
		VPCUID: in.Spec.VPCUID,
	}, nil
}
