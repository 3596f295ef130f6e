// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package externalpool

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// publish writes the grants into the ConfigMap that the chart makes.
func (r *Reconciler) publish(ctx context.Context) error {
	if r.Namespace == "" {
		return nil // without the chart there is no policy
	}
	var data map[string]string
	r.Store.View(func(tx store.ReadTx) { data = grants(tx) })
	object := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: r.Namespace, Name: v1alpha1.ExternalIPGrants}
	if err := r.Live.Get(ctx, key, object); err != nil {
		return fmt.Errorf("read who may have external IPs: %w; `helm upgrade` makes a ConfigMap that was deleted anew", err)
	}
	if maps.Equal(data, object.Data) {
		return nil
	}
	object.Data = data
	if err := r.Client.Update(ctx, object); err != nil {
		return fmt.Errorf("write who may have external IPs: %w", err)
	}
	return nil
}
