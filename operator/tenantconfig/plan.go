// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenantconfig

import (
	"fmt"
	"maps"
	"slices"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/multinet"
)

// decision is the status of one TenantConfig.
type decision struct {
	ready           bool
	reason, message string
}

// decide plans for one TenantConfig. The oldest of both groups serves, also while it can't
// be used: otherwise a younger one would take over by a mistake in the older.
func decide(tx store.ReadTx, config *multinet.TenantConfig) decision {
	serving := multinet.ServingTenantConfig(tx)
	if serving != nil && serving.UID != config.UID {
		return decision{reason: v1alpha1.OlderServesReason, message: fmt.Sprintf(
			"TenantConfig %q of group %s, which is older, serves: add the content to it, and delete this one", serving.Name, serving.Group)}
	}
	if config.Invalid != "" {
		return decision{reason: v1alpha1.InvalidReason, message: config.Invalid}
	}
	return decision{ready: true, reason: v1alpha1.ReadyReason, message: "TenantNetworks use it"}
}

// offer returns what a TenantConfig offers to TenantNetworks; nil without one, and for one
// that can't be used.
func offer(serving *multinet.TenantConfig) *v1alpha1.TenantNetworkGrant {
	if serving == nil || serving.Invalid != "" || serving.Deleting {
		return nil
	}
	grant := &v1alpha1.TenantNetworkGrant{TenantConfig: serving.Name, NetworkTypes: slices.Sorted(maps.Keys(serving.NetworkIDs))}
	for _, device := range serving.Devices {
		if multinet.IsPool(device.Name) {
			grant.DevicePools = append(grant.DevicePools, device.Name)
		} else {
			grant.Devices = append(grant.Devices, device.Name)
		}
	}
	return grant
}
