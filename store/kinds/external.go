// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// ExternalPool is the kind of addresses outside of all VPCs that tenants may have.
var ExternalPool = define(description[*v1alpha1.ExternalPool, store.ExternalPool]{
	name: "ExternalPool", object: &v1alpha1.ExternalPool{}, list: &v1alpha1.ExternalPoolList{}, convert: convertExternalPool,
	table: byName(store.GetExternalPool, store.PutExternalPool, store.DeleteExternalPool),
	verdict: func(row *store.ExternalPool) Verdict {
		return Verdict{ID: ID{Name: row.Name, UID: row.UID}, Ready: row.Ready, Reason: row.Reason, Message: row.Message}
	},
	rows:   listed(store.ListExternalPools),
	onNode: everything,
})

// convertExternalPool converts an ExternalPool. It returns an error where a range can't
// be read, which the schema refuses.
func convertExternalPool(in *v1alpha1.ExternalPool) (*store.ExternalPool, error) {
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

// ExternalAddress is the kind of an address of an ExternalPool that a Service holds.
var ExternalAddress = define(description[*v1alpha1.ExternalAddress, store.ExternalAddress]{
	name: "ExternalAddress", object: &v1alpha1.ExternalAddress{}, list: &v1alpha1.ExternalAddressList{}, convert: convertExternalAddress,
	table:  byIP(store.GetExternalAddress, store.PutExternalAddress, store.DeleteExternalAddress),
	onNode: everything,
})

// byIP is a table whose rows are found by the IP in the object's name, to which
// validation ties it. A name with another text has no row.
func byIP[R any](get func(store.ReadTx, netip.Addr) *R, put func(store.Tx, *R) error, remove func(store.Tx, netip.Addr, string) bool) table[R] {
	ip := func(id ID) netip.Addr {
		ip, _ := netip.ParseAddr(strings.ReplaceAll(id.Name, "-", ":"))
		return ip
	}
	return table[R]{
		get:    func(tx store.ReadTx, id ID) *R { return get(tx, ip(id)) },
		put:    put,
		remove: func(tx store.Tx, id ID) { remove(tx, ip(id), id.UID) },
	}
}

// convertExternalAddress converts an ExternalAddress. It returns an error where the IP
// can't be read, which the schema refuses.
func convertExternalAddress(in *v1alpha1.ExternalAddress) (*store.ExternalAddress, error) {
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
