// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"slices"
)

const (
	byName    = "name"
	byNetwork = "network"
)

var pods = &table[Pod]{
	name: "pod",
	key:  func(p *Pod) []byte { return textKey(p.UID) },
	meta: func(p *Pod) *Meta { return &p.Meta },
	indexes: map[string]func(*Pod) []byte{
		byName:    func(p *Pod) []byte { return textKey(p.Namespace, p.Name) },
		byNode:    func(p *Pod) []byte { return textKey(p.Node) },
		byNetwork: func(p *Pod) []byte { return textKey(p.Tenant, p.Network) },
	},
}

// GetPod returns the pod of that UID, or nil.
func GetPod(tx ReadTx, uid string) *Pod {
	return pods.get(tx, textKey(uid))
}

// AsHolder returns the pod as the holder of its addresses.
func (p *Pod) AsHolder() Holder {
	return Holder{Kind: HolderPod, Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// Holds tells whether an address counts for the pod.
func (p *Pod) Holds(row *Address) bool { return row.CountsFor(p.AsHolder(), p.Node) }

// PodByName returns the newest pod of that name, or nil. An older one of the
// same name may still be in the store while its end has not been seen.
func PodByName(tx ReadTx, namespace, name string) *Pod {
	rows := pods.oldestFirst(tx, byName, textKey(namespace, name))
	if len(rows) == 0 {
		return nil
	}
	return rows[len(rows)-1]
}

// PodsByNamespace returns the pods of a namespace, by name, then UID.
func PodsByNamespace(tx ReadTx, namespace string) []*Pod {
	return pods.list(tx, byName, textKey(namespace))
}

// PodsByTenant returns the pods in the tenant's namespaces, by network label,
// then UID.
func PodsByTenant(tx ReadTx, tenant string) []*Pod {
	return pods.list(tx, byNetwork, textKey(tenant))
}

// PodsByNetwork returns the tenant's pods with that network label, by UID. The
// empty label means pods without one.
func PodsByNetwork(tx ReadTx, tenant, label string) []*Pod {
	return pods.list(tx, byNetwork, textKey(tenant, label))
}

// PodsByNode returns the pods that are bound to a node, by UID. The empty name
// means pods that are not bound.
func PodsByNode(tx ReadTx, node string) []*Pod {
	return pods.list(tx, byNode, textKey(node))
}

// ListPods returns all pods by UID.
func ListPods(tx ReadTx) []*Pod {
	return slices.Collect(pods.all(tx))
}

// AllPods yields all pods by UID.
func AllPods(tx ReadTx) iter.Seq[*Pod] {
	return pods.all(tx)
}

// PutPod inserts or replaces a pod. Where the row of its Namespace is known,
// the tenant is taken from there.
func PutPod(tx Tx, row *Pod) error {
	if ns := GetNamespace(tx, row.Namespace); ns != nil && ns.Tenant != row.Tenant {
		follow := *row
		follow.Tenant = ns.Tenant
		row = &follow
	}
	_, err := pods.put(tx, row)
	return err
}

// DeletePod removes the pod of that UID and reports whether it was there.
func DeletePod(tx Tx, uid string) bool {
	return pods.remove(tx, textKey(uid), uid) != nil
}
