// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostlink

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/pluginconf"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// wanted returns the specification of a link on the nodes, nil if no network wants it. The result
// depends on the store alone, so that two operators write the same.
func (r *Reconciler) wanted(tx store.ReadTx, id multinet.LinkID) *v1alpha1.HostLinkSpec {
	var spec *v1alpha1.HostLinkSpec
	for _, net := range multinet.OnSegment(tx, id.Segment()) { // the oldest first
		if on, ok := net.OnNodes(); !ok || on != id || !wants(tx, net) {
			continue
		}
		if id.Type == multinet.DeviceOnly {
			return &v1alpha1.HostLinkSpec{Type: id.Type, Device: id.Device}
		}
		if spec == nil {
			spec = &v1alpha1.HostLinkSpec{
				Type:      id.Type,
				VNI:       int32(id.VNI),
				Device:    id.Device,
				NetworkID: net.NetworkID,
				MTU:       int32(net.Settings.MTU),
			}
			continue
		}
		spec.MTU = larger(spec.MTU, int32(net.Settings.MTU))
	}
	for _, def := range multinet.DefinitionsOnLink(tx, id) {
		if !r.Delegation || !r.defines(tx, def) {
			continue
		}
		if spec == nil {
			spec = &v1alpha1.HostLinkSpec{Type: id.Type, VNI: int32(id.VNI), Device: id.Device, NetworkID: def.Name}
		}
		spec.MTU = 0 // its plugin's
	}
	return spec
}

// defines reports whether a definition has its link: as long as a grant permits its plugins, or a
// pod may have an interface of it. Definitions of tenants never run plugins, and can't use the
// numbers of tenants. A namespace has a limit of links.
func (r *Reconciler) defines(tx store.ReadTx, def *multinet.Definition) bool {
	if len(multinet.ClaimsByNetwork(tx, def.UID)) > 0 {
		return true
	}
	if def.Deleting || ofTenant(tx, def.Namespace) || multinet.TenantsNumber(tx, def.Link) != "" ||
		multinet.ExceedsLinks(tx, def, r.Numbers) {
		return false
	}
	for grant := range multinet.AllGrants(tx) {
		if !grant.Uses(def.Reference()) {
			continue
		}
		_, err := pluginconf.Build(pluginconf.Request{
			Text: []byte(
				def.Config,
			), Name: def.Name, Links: true, Allowed: pluginconf.Allowed{Plugins: grant.Plugins, IPAM: grant.IPAM},
		})
		if err == nil {
			return true
		}
	}
	return false
}

// ofTenant reports whether a namespace has a tenant label, or is not known yet.
func ofTenant(tx store.ReadTx, namespace string) bool {
	row := store.GetNamespace(tx, namespace)
	return row == nil || tenancy.Labelled(row.Tenant)
}

// wants reports whether a network wants its link: from when it is Ready, and as long as a pod may
// have an interface in it. A network without a serving node wants it too: through the link the
// nodes report when one of them serves the network.
func wants(tx store.ReadTx, net *multinet.Network) bool {
	return net.Ready || net.Reason == v1alpha1.NoServingNodeReason || len(multinet.ClaimsByNetwork(tx, net.UID)) > 0
}

// larger returns the larger of two MTUs. The MTU 0 stands for the MTU of the parent, and counts as
// the largest.
func larger(a, b int32) int32 {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}
