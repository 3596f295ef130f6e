// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// VPC converts a VPC. It returns an error where a range can't be read, which
// the schema refuses.
func VPC(in *v1alpha1.VPC) (*store.VPC, error) {
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

// VNIClaim converts a VNIClaim. It never fails.
func VNIClaim(in *v1alpha1.VNIClaim) (*store.VNIClaim, error) {
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
