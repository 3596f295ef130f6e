// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package multinet

import (
	"slices"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/memory"
)

// Claim is the row of an AttachmentClaim object, which permits one interface of a pod in
// a network outside of every VPC. Key: Namespace and Name.
type Claim struct {
	store.Meta
	// Namespace is the namespace of the claim and of the pod.
	Namespace, Name string
	// PodName and PodUID are the pod's.
	PodName, PodUID string
	// Node on which the pod runs.
	Node string
	// Interface is the name of the interface in the pod.
	Interface string
	// Driver is the kind of the attachment.
	Driver  string
	Network store.NetworkRef
	// Config is the configuration of the interface, nil in a claim of release 0.1.
	Config *netif.Interface
	// Interfaces are the names of all interfaces of the pod, if this is the claim of the first one.
	Interfaces []string
	// ConfigHash is the SHA-256 of the attachment's element in the annotation, 64
	// digits in hex.
	ConfigHash string
	// Addresses are for people.
	Addresses []string
	// Released reports that the node has no interface of the pod any more.
	Released bool
}

// CountsFor reports whether the claim is valid for the pod on its node. Namespace, name, UID and
// node must all agree, as with an Address.
func (c *Claim) CountsFor(pod *store.Pod) bool {
	return c.Namespace == pod.Namespace && c.PodName == pod.Name && c.PodUID == pod.UID && c.Node == pod.Node
}

// Fits reports whether the configuration is for the interface, driver and network of the claim.
func (c *Claim) Fits() bool {
	return c.Config != nil && c.Config.Name == c.Interface && c.Config.Kind == c.Driver &&
		c.Config.OutsideUID == c.Network.UID
}

// Holder returns the pod as the holder of addresses.
func (c *Claim) Holder() store.Holder {
	return store.Holder{Kind: store.HolderPod, Namespace: c.Namespace, Name: c.PodName, UID: c.PodUID}
}

const (
	byPod     = "pod"
	byNetwork = "network"
	byNode    = "node"
)

var claims = memory.Define(memory.Table[Claim]{
	Name: "attachmentclaim",
	Key:  func(c *Claim) []byte { return memory.TextKey(c.Namespace, c.Name) },
	Meta: func(c *Claim) *store.Meta { return &c.Meta },
	Indexes: map[string]func(*Claim) []byte{
		byPod:     func(c *Claim) []byte { return memory.TextKey(c.PodUID) },
		byNetwork: func(c *Claim) []byte { return memory.TextKey(c.Network.UID) },
		byNode:    func(c *Claim) []byte { return memory.TextKey(c.Node) },
	},
})

// GetClaim returns the AttachmentClaim object of that namespace and name, or nil.
func GetClaim(tx store.ReadTx, namespace, name string) *Claim {
	return claims.Get(tx, memory.TextKey(namespace, name))
}

// Claims returns all AttachmentClaims, by namespace and name.
func Claims(tx store.ReadTx) []*Claim { return slices.Collect(claims.All(tx)) }

// ClaimsNaming returns every claim whose pod has that UID, by namespace and name, also claims
// that do not count for it. It is for removing; other callers use ClaimsByPod.
func ClaimsNaming(tx store.ReadTx, podUID string) []*Claim {
	return claims.List(tx, byPod, memory.TextKey(podUID))
}

// ClaimsByPod returns the claims that count for a pod where it runs, by name.
func ClaimsByPod(tx store.ReadTx, pod *store.Pod) []*Claim {
	var list []*Claim
	for _, row := range ClaimsNaming(tx, pod.UID) {
		if row.CountsFor(pod) {
			list = append(list, row)
		}
	}
	return list
}

// ClaimsByNetwork returns the claims of a network, by namespace and name. networkUID is the UID
// of the network object.
func ClaimsByNetwork(tx store.ReadTx, networkUID string) []*Claim {
	return claims.List(tx, byNetwork, memory.TextKey(networkUID))
}

// PutClaim inserts or replaces a claim.
func PutClaim(tx store.Tx, row *Claim) error {
	_, err := claims.Put(tx, row)
	return err
}

// DeleteClaim removes a claim if it has that UID, and reports whether it did.
func DeleteClaim(tx store.Tx, namespace, name, uid string) bool {
	return claims.Remove(tx, memory.TextKey(namespace, name), uid) != nil
}

// ClaimsByNode returns the claims of a node's pods, by namespace and name.
func ClaimsByNode(tx store.ReadTx, node string) []*Claim {
	return claims.List(tx, byNode, memory.TextKey(node))
}
