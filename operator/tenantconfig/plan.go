// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenantconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// decision is the status of one TenantConfig.
type decision struct {
	// devices are the names of all devices and pools.
	devices string
	verdict.Verdict
}

// decide plans for one TenantConfig. The oldest of both groups serves, even while it can't be used:
// otherwise a mistake in the older one would let a younger one take over.
func decide(tx store.ReadTx, config *multinet.TenantConfig) decision {
	serving, devices := multinet.ServingTenantConfig(tx), namesOf(config)
	if serving != nil && serving.UID != config.UID {
		return decision{devices, verdict.Refuse(v1alpha1.OlderServesReason, fmt.Sprintf(
			"TenantConfig %q of group %s, which is older, serves: add the content to it, and delete this one",
			serving.Name,
			serving.Group,
		))}
	}
	if config.Invalid != "" {
		return decision{devices, verdict.Refuse(v1alpha1.InvalidReason, config.Invalid)}
	}
	return decision{devices, verdict.Use("TenantNetworks use it")}
}

// mostNames bounds the names of devices in a status, in bytes.
const mostNames = 1024

// namesOf lists the devices and pools of a TenantConfig.
func namesOf(config *multinet.TenantConfig) string {
	var list strings.Builder
	for i, device := range config.Devices {
		if list.Len()+len(device.Name) > mostNames {
			fmt.Fprintf(&list, " and %d others", len(config.Devices)-i)
			break
		}
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString(device.Name)
	}
	return list.String()
}

// offer returns the offer of a TenantConfig to TenantNetworks. It returns nil without a
// TenantConfig, or if it can't be used.
func offer(serving *multinet.TenantConfig) *v1alpha1.TenantNetworkGrant {
	if serving == nil || serving.Invalid != "" || serving.Deleting {
		return nil
	}
	grant := &v1alpha1.TenantNetworkGrant{
		TenantConfig: serving.Name,
		NetworkTypes: slices.Sorted(maps.Keys(serving.NetworkIDs)),
	}
	single := map[string]*v1alpha1.TenantDevices{}
	for _, device := range serving.Devices {
		if len(device.Tenants) == 0 {
			add(&grant.Devices, &grant.DevicePools, device.Name)
		}
		for _, tenant := range device.Tenants {
			if single[tenant] == nil {
				single[tenant] = &v1alpha1.TenantDevices{Tenant: tenant}
			}
			add(&single[tenant].Devices, &single[tenant].DevicePools, device.Name)
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(single)) {
		grant.Tenants = append(grant.Tenants, *single[tenant])
	}
	return grant
}

// add adds the name of an entry to the devices or to the pools.
func add(devices, pools *[]string, name string) {
	if multinet.IsPool(name) {
		*pools = append(*pools, name)
		return
	}
	*devices = append(*devices, name)
}
