// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
)

// Interfaces returns the interfaces of a pod, the requested one first, or the missing part for
// users. The pod's Address and AttachmentClaim objects, which only the operator writes, describe
// them. If a part is missing, the list has the interfaces without a missing part.
//
// An interface in a VPC has no prefix lengths, gateways and routes: its subnet and VPC have them.
func Interfaces(tx store.ReadTx, pod *store.Pod) (list []netif.Interface, missing string) {
	held := store.AddressesByPod(tx, pod)
	claims := multinet.ClaimsByPod(tx, pod)
	if isOfRelease01(held, claims) {
		return annotated(tx, pod, held)
	}
	names := namesOf(held, claims)
	if len(names) == 0 {
		return nil, "the pod's Address objects have not arrived yet"
	}
	for _, name := range names {
		one, lack := described(name, held, claims)
		if lack == "" {
			list = append(list, one)
		} else if missing == "" {
			missing = lack
		}
	}
	return list, missing
}

// namesOf returns the names of all interfaces of a pod in their order, which the objects of the
// first one have.
func namesOf(held []*store.Address, claims []*multinet.Claim) []string {
	for _, row := range held {
		if row.Attachment == v1alpha1.PodAttachment && !row.Deleting && len(row.Interfaces) > 0 {
			return row.Interfaces
		}
	}
	for _, claim := range claims {
		if claim.Interface == v1alpha1.PodAttachment && !claim.Deleting {
			return claim.Interfaces
		}
	}
	return nil
}

// described returns the description of one interface.
func described(name string, held []*store.Address, claims []*multinet.Claim) (one netif.Interface, missing string) {
	address := slices.IndexFunc(
		held,
		func(row *store.Address) bool { return row.Attachment == name && row.VPC != "" && !row.Deleting },
	)
	claim := slices.IndexFunc(claims, func(c *multinet.Claim) bool { return c.Interface == name && !c.Deleting })
	switch {
	case address >= 0 && claim >= 0:
		return one, fmt.Sprintf("interface %s: it has an Address in VPC %s, and an AttachmentClaim", name, held[address].VPC)
	case claim >= 0:
		return configOf(claims[claim])
	case address < 0:
		return one, fmt.Sprintf("interface %s: its Address or AttachmentClaim has not arrived yet", name)
	}
	return inVPC(held[address])
}

// inVPC returns the description of the interface of an Address in a VPC.
func inVPC(row *store.Address) (one netif.Interface, missing string) {
	if row.Config == nil {
		return one, fmt.Sprintf(
			"interface %s: its Address is of release 0.1 and has no configuration; the operator adds it: is alioth-operator of this release running?",
			row.Attachment,
		)
	}
	one = netif.Interface{Name: row.Attachment, Kind: netif.KindPair, VPC: row.VPC, Subnet: row.Subnet, MAC: row.MAC}
	if row.External {
		one.Kind = netif.KindExternal
	}
	one.SetVPCConfig(*row.Config)
	return one, ""
}

// Claimed returns the description of an interface of a pod that leads outside of every VPC, or the
// missing part. A claim that is being deleted permits no new interface.
func Claimed(tx store.ReadTx, pod *store.Pod, name string) (one netif.Interface, missing string) {
	claim := claimOf(tx, pod, name)
	switch {
	case claim == nil:
		return one, fmt.Sprintf("interface %s: its AttachmentClaim has not arrived yet", name)
	case claim.Deleting:
		return one, fmt.Sprintf(
			"interface %s: its AttachmentClaim is being deleted; the operator writes it again once the node has reported that the pod has no interface",
			name,
		)
	}
	return configOf(claim)
}

// Held returns the description of an interface that exists, as Claimed does. A claim that is being
// deleted describes it until the node has reported the end of the interface.
func Held(tx store.ReadTx, pod *store.Pod, name string) (one netif.Interface, missing string) {
	claim := claimOf(tx, pod, name)
	if claim == nil {
		return one, fmt.Sprintf("interface %s: it has no AttachmentClaim", name)
	}
	return configOf(claim)
}

// claimOf returns the AttachmentClaim of an interface of a pod, nil without one.
func claimOf(tx store.ReadTx, pod *store.Pod, name string) *multinet.Claim {
	claim := multinet.GetClaim(tx, pod.Namespace, v1alpha1.AttachmentClaimName(pod.UID, name))
	if claim == nil || claim.Interface != name || !claim.CountsFor(pod) {
		return nil
	}
	return claim
}

func configOf(claim *multinet.Claim) (one netif.Interface, missing string) {
	switch {
	case claim.Config == nil:
		return one, fmt.Sprintf(
			"interface %s: its AttachmentClaim is of release 0.1 and has no configuration; the operator adds it: is alioth-operator of this release running?",
			claim.Interface,
		)
	case !claim.Fits():
		return one, fmt.Sprintf(
			"interface %s: its AttachmentClaim contradicts itself; delete the pod to have the claim written anew",
			claim.Interface,
		)
	}
	return *claim.Config, ""
}
