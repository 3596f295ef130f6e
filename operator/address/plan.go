// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// verb is the next step for an address.
type verb int

const (
	// keep it: its holder lives, or its node's daemon is to release it.
	keep verb = iota
	// forget it: the API does not have it, and no claim for it is in progress.
	forget
	// release it: its holder is gone, and so is its node, or it had no node.
	release
	// expel it: it names a pod that runs elsewhere, or has another name.
	expel
)

// decide plans for one address of a pod or a Service. Package node plans for addresses of
// nodes. settled is true once the daemons of the known nodes have answered the roll call of the
// term, or its time has passed. A daemon that is not known yet, or whose answer was deleted, has
// not answered: only nodeLetGo decides about its node, by the conditions in the API.
func decide(tx store.ReadTx, address *store.Address, settled bool) verb {
	switch address.Holder.Kind {
	case store.HolderPod:
		return decidePod(tx, address, settled)
	case store.HolderService:
		return decideService(tx, address)
	case store.HolderNode:
	}
	return keep
}

// decideService plans for an address without a node: it is released after its Service.
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

// decidePod plans for one address of a pod. While the node may be running, only its
// daemon can confirm that the pod's interface is gone: a pod that is missing in the API
// may have been deleted by force.
func decidePod(tx store.ReadTx, address *store.Address, settled bool) verb {
	pod := store.GetPod(tx, address.Holder.UID)
	switch {
	case address.UID == "" && (pod == nil || pod.Deleting || pod.Terminal || !pod.Holds(address)):
		return forget
	case pod != nil && !pod.Holds(address):
		return expel
	case pod != nil:
		return keep
	case letGo(tx, address.Node, settled):
		return release
	}
	return keep
}

// letGo reports whether a node holds nothing of pods that are gone: it is fenced, or no daemon
// has attached pods there. The operator reserves addresses for pods of such a node too.
func letGo(tx store.ReadTx, name string, settled bool) bool {
	return fenced(store.GetNode(tx, name)) || settled && daemonless(tx, name)
}

// daemonless reports whether the store has no answer of a daemon for a node. That alone proves
// nothing: nodeLetGo confirms it.
func daemonless(tx store.ReadTx, name string) bool {
	return store.GetRollCall(tx, v1alpha1.NodeRollCall(name)) == nil
}

// fenced reports whether no pod can run on a node any more: its object is gone, or has
// the taint that an administrator or controller sets for that.
func fenced(node *store.Node) bool { return node == nil || node.OutOfService }
