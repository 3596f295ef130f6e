// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package externaladdress

import (
	"bytes"
	"crypto/sha256"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/services"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// decision is the next step for an external address.
type decision struct {
	// release it: its Service is gone.
	release bool
	// node that is to announce it, "" for none.
	node string
}

func decide(tx store.ReadTx, address *external.Address, defaultVPC string) decision {
	service := store.GetService(tx, address.Holder.Namespace, address.Holder.Name)
	if service == nil || service.UID != address.Holder.UID {
		return decision{release: true}
	}
	return decision{node: elect(tx, address, service, defaultVPC)}
}

// elect chooses the node that announces an address: the current one while it is
// suitable, else the suitable node with the first hash of address and node
// (rendezvous hashing). An added or removed node therefore moves only its share of
// addresses. While no node is suitable, for example because the nodes' leases are
// late, the current node stays.
func elect(tx store.ReadTx, address *external.Address, service *store.Service, defaultVPC string) string {
	serves := func(*store.Node) bool { return true }
	if service.ByBackendsHere() {
		ready := services.ReadyOn(tx, services.Site{VPC: vpcOf(tx, service, defaultVPC), DefaultVPC: defaultVPC}, service)
		nowhere := len(ready) == 0 && !service.ExternalNodeLocal // any node says so
		serves = func(node *store.Node) bool { return nowhere || ready[node.Name] }
	}
	best, anyFit := "", false
	var most []byte
	for _, node := range store.ListNodes(tx) {
		if !node.MayAnnounce() {
			continue
		}
		anyFit = true
		if !serves(node) {
			continue
		}
		if node.Name == address.Node {
			return node.Name
		}
		if rank := weigh(address, node); best == "" || bytes.Compare(rank, most) > 0 {
			best, most = node.Name, rank
		}
	}
	if last := store.GetNode(tx, address.Node); !anyFit && last != nil && !last.OutOfService {
		return last.Name
	}
	return best
}

func weigh(address *external.Address, node *store.Node) []byte {
	hash := sha256.Sum256([]byte(address.IP.String() + " " + node.Name))
	return hash[:]
}

// vpcOf returns the name of the VPC that a Service leads to, or "".
func vpcOf(tx store.ReadTx, service *store.Service, defaultVPC string) string {
	ns := store.GetNamespace(tx, service.Namespace)
	if ns == nil {
		return ""
	}
	member := tenancy.Member{Tenant: ns.Tenant, Namespace: ns.Name, Label: service.Network}
	target, _ := tenancy.Resolve(tx, member, defaultVPC)
	if target.VPC == nil {
		return ""
	}
	return target.VPC.Name
}
