// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/verdict"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// rank orders the kinds of networks by their authors: cluster administrators write
// ClusterNetworks, persons with a grant DanmNets, and tenants TenantNetworks.
func rank(kind string) int {
	switch kind {
	case multinet.KindClusterNetwork:
		return 0
	case multinet.KindDanmNet:
		return 1
	}
	return 2
}

// precedes reports whether network a keeps a resource that both networks want. The network whose
// author has more rights keeps it, whatever the age. Between equal authors, the older network does.
func precedes(a, b *multinet.Network) bool {
	if rank(a.Kind) != rank(b.Kind) {
		return rank(a.Kind) < rank(b.Kind)
	}
	return a.Older(b)
}

// nameFor names a network in a message of another one. Tenants read the messages of their
// networks, so networks of other tenants have no name in them.
func nameFor(tx store.ReadTx, reader, other *multinet.Network) string {
	switch {
	case reader.Kind == multinet.KindClusterNetwork,
		other.Kind == multinet.KindClusterNetwork && other.Admits(reader.Namespace):
		return other.String()
	case other.Kind == multinet.KindClusterNetwork:
		return "a ClusterNetwork of the cluster's administrators"
	case tenancy.OfNamespace(tx, reader.Namespace) == tenancy.OfNamespace(tx, other.Namespace):
		return other.String()
	}
	return "a " + other.Kind + " of another tenant"
}

// losesItsNumber finds the ClusterNetwork that has the number of a TenantNetwork: an
// administrator may take a number back. Pods of the TenantNetwork keep their interfaces.
func losesItsNumber(tx store.ReadTx, net *multinet.Network) *verdict.Verdict {
	if _, vni := net.VNI(); vni == 0 || net.Kind != multinet.KindTenantNetwork {
		return nil
	}
	for _, other := range multinet.OnSegment(tx, net.Segment()) {
		if other.Kind == multinet.KindClusterNetwork && serves(tx, other) {
			return refuse(v1alpha1.VNITakenReason, fmt.Sprintf(
				"%s, which precedes, has the number %s now: delete the pods and the network, and create the network again to get another number",
				nameFor(tx, net, other),
				numberOf(net),
			))
		}
	}
	return nil
}

// stillOnNumber returns the TenantNetworks with pods on the number of a ClusterNetwork.
func stillOnNumber(tx store.ReadTx, net *multinet.Network) []string {
	if _, vni := net.VNI(); vni == 0 || net.Kind != multinet.KindClusterNetwork {
		return nil
	}
	var all []string
	for _, other := range multinet.OnSegment(tx, net.Segment()) {
		if other.Kind == multinet.KindTenantNetwork && len(usersOf(tx, other)) > 0 {
			all = append(all, other.String())
		}
	}
	return all
}
