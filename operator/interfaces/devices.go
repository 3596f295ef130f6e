// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// onDevice reports whether the interface is a device that the kubelet allocates.
func (r request) onDevice() bool {
	return !r.inVPC() && r.net != nil && r.net.Type == multinet.TypeSRIOV
}

// define adds the settings of a definition to the settings of the network that it names. Users of
// the namespace write definitions. So settings with power over others need a grant, and pods of
// tenants have no grant.
func (cfg Config) define(tx store.ReadTx, p *store.Pod, r *request, def *multinet.Definition) *tenancy.Refusal {
	own := def.VF
	if !r.onDevice() {
		if len(own.Keys()) > 0 {
			return invalid(
				"%s has the annotation %s, and %s is not of type %s: remove the annotation",
				def,
				annotations.VFKey,
				r,
				multinet.TypeSRIOV,
			)
		}
		return nil
	}
	if def.ResourceName != "" && def.ResourceName != r.net.DevicePool {
		return invalid("%s names the resource %q, and %s has its devices from %q: correct the annotation %s",
			def, def.ResourceName, r.net.Ref, r.net.DevicePool, annotations.ResourceNameKey)
	}
	if refusal := cfg.granted(tx, p, def, own.Privileged()); refusal != nil {
		return refusal
	}
	vf, err := r.vf.With(own)
	if err == nil {
		err = vf.CheckVLAN(r.net.VLAN)
	}
	if err != nil {
		return invalid("%s, annotation %s: %v", def, annotations.VFKey, err)
	}
	r.vf = vf
	return nil
}

// granted refuses settings of a definition that no grant permits.
func (cfg Config) granted(tx store.ReadTx, p *store.Pod, def *multinet.Definition, settings []string) *tenancy.Refusal {
	if len(settings) == 0 {
		return nil
	}
	text := strings.Join(settings, ", ")
	if !unlabelled(p) || ofTenant(tx, p, def) {
		return notGranted(
			"%s sets %s, which pods of tenants can't have from a definition, and no pod from a definition of a tenant: the cluster administrator can set it in a ClusterNetwork",
			def,
			text,
		)
	}
	for _, grant := range cfg.Sharing.GrantsFor(tx, p.Namespace, def.Reference()) {
		if !slices.ContainsFunc(settings, func(key string) bool { return !slices.Contains(grant.Settings, key) }) {
			return nil
		}
	}
	return notGranted(
		"%s sets %s, and no DelegationGrant permits it (spec.settings): ask the cluster administrator for one, or remove it from the annotation %s",
		def,
		text,
		annotations.VFKey,
	)
}

// checkDevices refuses a pod that does not request a device for each of its interfaces that need
// one. The kubelet allocates only the devices that containers request.
func checkDevices(p *store.Pod, requests []request) *tenancy.Refusal {
	needed := map[string][]string{}
	for _, r := range requests {
		if r.onDevice() {
			needed[r.net.DevicePool] = append(needed[r.net.DevicePool], r.name)
		}
	}
	for _, r := range requests {
		if !r.onDevice() {
			continue
		}
		pool := r.net.DevicePool
		if names := needed[pool]; p.Devices[pool] < len(names) {
			return &tenancy.Refusal{Reason: v1alpha1.DevicesNotRequestedReason, Message: fmt.Sprintf(
				"%s needs %d of the resource %s, for %s, and the containers of the pod request %d: add it to resources.requests and resources.limits of a container",
				r.net.Ref,
				len(names),
				pool,
				strings.Join(names, ", "),
				p.Devices[pool],
			)}
		}
	}
	return nil
}
