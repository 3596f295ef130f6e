// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "slices"

// HostPod is the row of a Pod object on the network of its node, of which Alioth knows
// no more than that it is there. Key: UID.
type HostPod struct {
	Meta
	Namespace, Name string
	// Node that the pod is bound to, or "".
	Node string
	// Terminal is true when the phase is Succeeded or Failed.
	Terminal bool
}

var hostPods = define(table[HostPod]{
	name: "hostpod",
	key:  func(p *HostPod) []byte { return textKey(p.UID) },
	meta: func(p *HostPod) *Meta { return &p.Meta },
})

// GetHostPod returns the pod on its node's network of that UID, or nil.
func GetHostPod(tx ReadTx, uid string) *HostPod {
	return hostPods.get(tx, textKey(uid))
}

// ListHostPods returns all pods on their nodes' networks by UID.
func ListHostPods(tx ReadTx) []*HostPod {
	return slices.Collect(hostPods.all(tx))
}

// PutHostPod inserts or replaces a pod on its node's network.
func PutHostPod(tx Tx, row *HostPod) error {
	_, err := hostPods.put(tx, row)
	return err
}

// DeleteHostPod removes the pod of that UID and reports whether it was there.
func DeleteHostPod(tx Tx, uid string) bool {
	return hostPods.remove(tx, textKey(uid), uid) != nil
}
