// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package danm

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// held returns the addresses of a network, by IP.
func held(tx store.ReadTx, net *multinet.Network) []*store.Address {
	return store.AddressesByDomain(tx, net.Domain())
}

// user is a pod with an interface in a network, and its node.
type user struct {
	store.Holder
	node string
}

// usersOf returns the pods that hold addresses of a network, and the pods with AttachmentClaims. A
// pod may be among them more than once.
func usersOf(tx store.ReadTx, net *multinet.Network) []user {
	var all []user
	for _, address := range held(tx, net) {
		if address.Holder.Kind == store.HolderPod {
			all = append(all, user{address.Holder, address.Node})
		}
	}
	for _, claim := range multinet.ClaimsByNetwork(tx, net.UID) {
		if isFor(claim, net) {
			all = append(all, user{claim.Holder(), claim.Node})
		}
	}
	return all
}

// isFor reports whether a claim is for a network. A claim that matches by UID alone was not made by
// the operator.
func isFor(claim *multinet.Claim, net *multinet.Network) bool {
	return claim.Network.Kind == net.Kind && claim.Network.Namespace == net.Namespace && claim.Network.Name == net.Name
}

// podsOf returns the pods with an interface in a network as namespace/name, in order. living has
// the pods that still exist. Users can't delete the others: their nodes have not released them.
func podsOf(tx store.ReadTx, net *multinet.Network) (all, living []string) {
	for _, u := range usersOf(tx, net) {
		name := u.Namespace + "/" + u.Name
		all = append(all, name)
		if store.GetPod(tx, u.UID) != nil {
			living = append(living, name)
		}
	}
	slices.Sort(all)
	slices.Sort(living)
	return slices.Compact(all), slices.Compact(living)
}

// unreleased returns the pods that are gone and that their nodes have not released, with the nodes,
// in order. It returns nothing while a pod of the network exists.
func unreleased(tx store.ReadTx, net *multinet.Network) []string {
	var all []string
	for _, u := range usersOf(tx, net) {
		if store.GetPod(tx, u.UID) != nil {
			return nil
		}
		all = append(all, fmt.Sprintf("%s/%s on %s", u.Namespace, u.Name, u.node))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// figures are the numbers of addresses in a network's status.
type figures struct{ used, free, total int64 }

// count counts the addresses of a network. Total and free count the family with the fewest
// addresses, and are 0 without a range. Addresses of a shared pool that pods hold in other networks
// of the segment are not free.
func count(tx store.ReadTx, net *multinet.Network) figures {
	v4, v6 := store.CountAddressesByNetwork(tx, net.Domain())
	f := figures{used: v4 + v6}
	source := ipam.RangeOf(tx, net)
	for i, r := range net.Ranges() {
		free, total := ipam.CountNetwork(tx, source, ipfamily.Of(r.Prefix.Addr()))
		if i == 0 {
			f.free, f.total = free, total
		}
		f.free, f.total = min(f.free, free), min(f.total, total)
	}
	return f
}

// podsIn returns the pods whose allocation status has an interface in a network, except ended
// ones, as namespace/name. The claims of a pod may be gone before it, because the namespace
// controller deletes everything of a namespace at once.
func podsIn(tx store.ReadTx, net *multinet.Network) []string {
	var all []string
	for pod := range store.AllPods(tx) {
		if !pod.Terminal && leadsTo(pod, net) {
			all = append(all, pod.Namespace+"/"+pod.Name)
		}
	}
	return all
}

// leadsTo reports whether the allocation status of a pod has an interface in a network that admits
// the pod. Nothing confirms it any more, so it delays a deletion and decides nothing else. A pod
// without a node has no interface. The status of a living pod on a node is replaced if it does not
// come from the operator.
func leadsTo(pod *store.Pod, net *multinet.Network) bool {
	if pod.Node == "" || !net.Admits(pod.Namespace) {
		return false
	}
	return slices.ContainsFunc(allocation.Networks(pod), func(n store.NetworkRef) bool { return n.UID == net.UID })
}
