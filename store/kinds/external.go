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

// ExternalPool converts an ExternalPool. It returns an error where a range can't
// be read, which the schema refuses.
func ExternalPool(in *v1alpha1.ExternalPool) (*store.ExternalPool, error) {
	row := &store.ExternalPool{
		Meta:           rowMeta(in),
		Name:           in.Name,
		AllowedTenants: slices.Clone(in.Spec.AllowedTenants),
		ForExternalIPs: in.Spec.Use == v1alpha1.PoolForExternalIPs,
	}
	for _, text := range in.Spec.CIDRs {
		r, err := parseRange(text)
		if err != nil {
			return nil, fmt.Errorf("convert ExternalPool %s: %w", in.Name, err)
		}
		row.Ranges = append(row.Ranges, r)
	}
	row.Ready, row.Reason, row.Message = readiness(in.Status.Conditions)
	return row, nil
}

// ExternalAddress converts an ExternalAddress. It returns an error where the IP
// can't be read, which the schema refuses.
func ExternalAddress(in *v1alpha1.ExternalAddress) (*store.ExternalAddress, error) {
	ip, err := netip.ParseAddr(in.Spec.IP)
	if err != nil {
		return nil, fmt.Errorf("convert ExternalAddress %s: %w", in.Name, err)
	}
	return &store.ExternalAddress{
		Meta: rowMeta(in),
		IP:   ip.Unmap(),
		Pool: in.Spec.Pool,
		Holder: store.Holder{
			Kind: store.HolderService, Namespace: in.Spec.Service.Namespace, Name: in.Spec.Service.Name, UID: in.Spec.Service.UID,
		},
		Node: in.Status.Node,
	}, nil
}
