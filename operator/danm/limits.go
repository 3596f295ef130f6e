// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"iter"
	"net/netip"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// Limits bound a tenant's networks outside of VPCs. They are for TenantNetworks, and for DanmNets
// in namespaces with a tenant label. 0 stands for no limit.
type Limits struct {
	// Networks and Numbers are how many networks a tenant may have, and how many of them on
	// a VLAN or VXLAN.
	Networks, Numbers int
	// Prefix4 and Prefix6 are the shortest prefix lengths of their ranges.
	Prefix4, Prefix6 int
}

// DefaultLimits apply to an operator without flags.
var DefaultLimits = Limits{Networks: 16, Numbers: 64, Prefix4: 16, Prefix6: 64}

// limited reports whether limits are for a network.
func limited(tx store.ReadTx, net *multinet.Network) bool {
	switch net.Kind {
	case multinet.KindTenantNetwork:
		return true
	case multinet.KindDanmNet:
		return tenancy.Labelled(tenancy.OfNamespace(tx, net.Namespace))
	}
	return false
}

// established reports whether a network has been served before: it has claims or addresses,
// which only the operator makes. Such a network keeps working above a limit, because the
// limit may be younger.
func established(tx store.ReadTx, net *multinet.Network) bool {
	if len(multinet.HostVNIClaimsByNetwork(tx, net.UID)) > 0 || len(multinet.DomainClaimsByNetwork(tx, net.UID)) > 0 {
		return true
	}
	return len(multinet.ClaimsByNetwork(tx, net.UID)) > 0 || len(held(tx, net)) > 0
}

// exceeded returns the limit that a network is above, with the remedy, or nil.
func (l Limits) exceeded(tx store.ReadTx, net *multinet.Network) *verdict.Verdict {
	if !limited(tx, net) {
		return nil
	}
	if r := l.wide(net); r != nil {
		return r
	}
	if l.full(tx, net, l.Networks, func(*multinet.Network) bool { return true }) {
		return refuse(v1alpha1.TenantLimitReason, fmt.Sprintf(
			"the tenant has %d networks, which is the limit (multiNetwork.tenantLimits.networks of the chart): delete a network that is not needed, or ask an administrator for a higher limit",
			l.Networks,
		))
	}
	return nil
}

// numbersExceeded is the refusal of a number for a network, or nil.
func (l Limits) numbersExceeded(tx store.ReadTx, net *multinet.Network) *verdict.Verdict {
	if !limited(tx, net) ||
		!l.full(tx, net, l.Numbers, func(other *multinet.Network) bool { return hasNumber(tx, other) }) {
		return nil
	}
	return refuse(v1alpha1.TenantLimitReason, fmt.Sprintf(
		"the tenant has %d networks on VLANs and VXLANs, which is the limit (multiNetwork.tenantLimits.numbers of the chart): delete a network that is not needed, or ask an administrator for a higher limit",
		l.Numbers,
	))
}

// hasNumber reports whether a network counts as one on a VLAN or VXLAN. The number in the
// spec of a TenantNetwork without a profile is a tenant's word alone.
func hasNumber(tx store.ReadTx, net *multinet.Network) bool {
	if len(multinet.HostVNIClaimsByNetwork(tx, net.UID)) > 0 {
		return true
	}
	_, vni := net.VNI()
	return vni != 0 && net.Placed()
}

// full reports whether a network is above the limit of its tenant: as many networks as the limit
// precede it. Established networks precede others, then older ones do. The order does not depend on
// conditions, so that two operators refuse the same networks. The search ends as soon as the limit
// is reached.
func (l Limits) full(tx store.ReadTx, net *multinet.Network, limit int, counts func(*multinet.Network) bool) bool {
	if limit == 0 {
		return false
	}
	before, mine := 0, established(tx, net)
	for other := range ofTenant(tx, net.Namespace) {
		if other.UID == net.UID || !comesBefore(tx, other, net, mine) || !counts(other) {
			continue
		}
		if before++; before >= limit {
			return true
		}
	}
	return false
}

// comesBefore compares two networks of a tenant. mine is established of the second one.
func comesBefore(tx store.ReadTx, other, net *multinet.Network, mine bool) bool {
	if other.Older(net) {
		return !mine || established(tx, other)
	}
	return !mine && established(tx, other)
}

// ofTenant yields the networks of the tenant of a namespace that have limits.
func ofTenant(tx store.ReadTx, namespace string) iter.Seq[*multinet.Network] {
	return func(yield func(*multinet.Network) bool) {
		for _, name := range namespacesOf(tx, tenancy.OfNamespace(tx, namespace), namespace) {
			for _, kind := range []string{multinet.KindTenantNetwork, multinet.KindDanmNet} {
				for net := range multinet.InNamespace(tx, kind, name) {
					if limited(tx, net) && !yield(net) {
						return
					}
				}
			}
		}
	}
}

// namespacesOf returns the namespaces of a tenant, member included. The event about member may be
// still to come.
func namespacesOf(tx store.ReadTx, tenant, member string) []string {
	rows := store.NamespacesByTenant(tx, tenant)
	if len(rows) == 0 {
		return []string{member}
	}
	names := make([]string, 0, len(rows))
	for _, row := range rows {
		names = append(names, row.Name)
	}
	return names
}

// wide finds a range that is larger than the limit.
func (l Limits) wide(net *multinet.Network) *verdict.Verdict {
	for _, r := range net.Ranges() {
		if limit := l.prefix(r.Prefix); r.Prefix.Bits() < limit {
			return refuse(v1alpha1.TenantLimitReason, fmt.Sprintf(
				"%s is larger than /%d, the limit for networks of tenants (multiNetwork.tenantLimits of the chart): use a smaller range, or ask an administrator for a ClusterNetwork",
				r.Prefix,
				limit,
			))
		}
	}
	return nil
}

func (l Limits) prefix(of netip.Prefix) int {
	if of.Addr().Is4() {
		return l.Prefix4
	}
	return l.Prefix6
}
