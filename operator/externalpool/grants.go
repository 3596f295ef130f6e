// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package externalpool

import (
	"cmp"
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
)

// grants returns the external IPs of each tenant. A policy with all pools as
// parameters is not possible: every parameter would have to grant the IP, but one
// pool is sufficient.
func grants(tx store.ReadTx) []v1alpha1.ExternalIPGrant {
	var list []v1alpha1.ExternalIPGrant
	for _, pool := range external.ListPools(tx) {
		if !pool.ForExternalIPs || !pool.Ready || pool.Deleting || len(pool.AllowedTenants) == 0 {
			continue
		}
		grant := v1alpha1.ExternalIPGrant{Pool: pool.Name, Tenants: pool.AllowedTenants}
		for _, r := range pool.Ranges {
			for _, prefix := range ipam.Prefixes(r) {
				grant.CIDRs = append(grant.CIDRs, prefix.String())
			}
		}
		list = append(list, grant)
	}
	slices.SortFunc(list, func(a, b v1alpha1.ExternalIPGrant) int { return cmp.Compare(a.Pool, b.Pool) })
	return list
}

// publish writes the grants for admission.
func (r *Reconciler) publish(ctx context.Context) error {
	granted := &v1alpha1.AdmissionGrants{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ExternalIPGrants}}
	r.Store.View(func(tx store.ReadTx) { granted.ExternalIPs = grants(tx) })
	return r.Grants.Write(ctx, granted)
}
