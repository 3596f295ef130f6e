// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import "github.com/alioth-net/alioth/store"

// verb describes what is to be done about an address.
type verb int

const (
	// keep it: its holder lives, or its node's daemon is to release it.
	keep verb = iota
	// forget it: it is not in the API, and nobody will create it.
	forget
	// release it: its holder is gone, and so is its node, or it was on none.
	release
	// expel it: it names a pod that runs elsewhere, or has another name.
	expel
)

// decide plans for one address of a pod or a Service. One of a node is the business
// of package node.
func decide(tx store.ReadTx, address *store.Address) verb {
	switch address.Holder.Kind {
	case store.HolderPod:
		return decidePod(tx, address)
	case store.HolderService:
		return decideService(tx, address)
	case store.HolderNode:
	}
	return keep
}

// decideService plans for an address that is on no node: it goes with its Service.
func decideService(tx store.ReadTx, address *store.Address) verb {
	service := store.GetService(tx, address.Holder.Namespace, address.Holder.Name)
	switch {
	case service != nil && service.UID == address.Holder.UID:
		return keep
	case address.UID == "":
		return forget
	}
	return release
}

// decidePod plans for one address of a pod. While the node may be running, only
// its daemon knows whether the pod's interface is gone; the API knows no more
// than that somebody deleted the pod, which may have been by force.
func decidePod(tx store.ReadTx, address *store.Address) verb {
	pod := store.GetPod(tx, address.Holder.UID)
	switch {
	case address.UID == "" && (pod == nil || pod.Deleting || pod.Terminal || !pod.Holds(address)):
		return forget
	case pod != nil && !pod.Holds(address):
		return expel
	case pod != nil:
		return keep
	case fenced(store.GetNode(tx, address.Node)):
		return release
	}
	return keep
}

// fenced reports whether nothing can run on a node any more: its object is gone,
// or somebody vouches for it.
func fenced(node *store.Node) bool { return node == nil || node.OutOfService }
