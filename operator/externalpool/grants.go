// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package externalpool

import (
	"context"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
)

// grants says which tenants may have which external IPs, in the form that an
// admission policy reads: under "<pool>.cidrs" and "<pool>.tenants" a list each, one
// entry per line. A policy with all pools as parameters could not do it: it has to
// hold for each of them, and here it is enough that one grants.
func grants(tx store.ReadTx) map[string]string {
	data := map[string]string{}
	for _, pool := range store.ListExternalPools(tx) {
		if !pool.ForExternalIPs || !pool.Ready || pool.Deleting || len(pool.AllowedTenants) == 0 {
			continue
		}
		var cidrs []string
		for _, r := range pool.Ranges {
			for _, prefix := range ipam.Prefixes(r) {
				cidrs = append(cidrs, prefix.String())
			}
		}
		data[pool.Name+".cidrs"] = strings.Join(cidrs, "\n")
		data[pool.Name+".tenants"] = strings.Join(pool.AllowedTenants, "\n")
	}
	return data
}

// publish tells admission.
func (r *Reconciler) publish(ctx context.Context) error {
	var data map[string]string
	r.Store.View(func(tx store.ReadTx) { data = grants(tx) })
	return r.Publisher.Write(ctx, v1alpha1.ExternalIPGrants, data)
}
