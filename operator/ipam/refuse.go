// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"net/netip"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
)

// noneReady explains why all of the subnets are unusable.
func noneReady(subnets []*store.Subnet, req *Request) *Error {
	switch {
	case len(subnets) == 0 && req.Holder.Kind == store.HolderService:
		return refuse(
			v1alpha1.SubnetNotFoundReason,
			WhenSubnetsChange,
			"VPC %q has no subnet for load balancers with %s: its owner can create a Subnet with spec.use Services",
			req.VPC,
			req.Families,
		)
	case len(subnets) == 0:
		return refuse(v1alpha1.SubnetNotFoundReason, WhenSubnetsChange,
			"VPC %q has no subnet for pods: create one", req.VPC)
	}
	first := subnets[0]
	state := "is not Ready yet"
	switch {
	case first.Deleting:
		state = "is being deleted"
	case first.Message != "":
		state = "is not Ready: " + first.Message
	}
	if len(subnets) > 1 {
		return refuse(v1alpha1.SubnetNotReadyReason, WhenSubnetsChange,
			"none of the %d subnets of VPC %q is Ready; the first, %s, %s", len(subnets), req.VPC, first.Name, state)
	}
	return refuse(v1alpha1.SubnetNotReadyReason, WhenSubnetsChange,
		"subnet %s of VPC %q %s", first.Name, req.VPC, state)
}

// forOthers reports that a subnet is for holders of another kind.
func forOthers(subnet *store.Subnet, req *Request) *Error {
	if subnet.ForServices {
		return refuse(
			v1alpha1.SubnetUseReason,
			WhenSubnetsChange,
			"subnet %s of VPC %q is for load balancers (spec.use Services): use another subnet or address, or remove the request",
			names([]*store.Subnet{subnet}),
			req.VPC,
		)
	}
	return refuse(
		v1alpha1.SubnetUseReason,
		WhenSubnetsChange,
		"subnet %s of VPC %q is for pods: a load balancer's address is from a subnet with spec.use Services",
		names([]*store.Subnet{subnet}),
		req.VPC,
	)
}

// outside reports that no subnet contains the requested IPs, together or at all.
func outside(all, others []*store.Subnet, req *Request) *Error {
	for _, subnet := range others {
		for _, ip := range req.IPs {
			if prefixOf(subnet, ip).IsValid() && !inAny(all, ip) {
				return forOthers(subnet, req)
			}
		}
	}
	if req.Subnet != "" {
		for _, ip := range req.IPs {
			if !prefixOf(all[0], ip).IsValid() {
				return refuse(v1alpha1.IPOutsideSubnetReason, WhenSubnetsChange,
					"%s is not in subnet %s: use an address of that subnet, or omit ip or subnet", ip, names(all))
			}
		}
	}
	for _, ip := range req.IPs {
		if !inAny(all, ip) {
			return refuse(v1alpha1.IPOutsideVPCReason, WhenSubnetsChange,
				"no subnet of VPC %q contains %s: use an address of one of its subnets: %s", req.VPC, ip, names(all))
		}
	}
	return refuse(v1alpha1.IPOutsideSubnetReason, WhenSubnetsChange,
		"no subnet of VPC %q contains both %s and %s: the addresses of an interface are from one subnet",
		req.VPC, req.IPs[0], req.IPs[1])
}

func inAny(all []*store.Subnet, ip netip.Addr) bool {
	for _, subnet := range all {
		if prefixOf(subnet, ip).IsValid() {
			return true
		}
	}
	return false
}

// available refuses a requested IP that can't be assigned to the holder. A cause is the reason that
// excludes every holder. of names the subnet or network.
func available(tx store.ReadTx, ip netip.Addr, cause, of string, req *Request) error {
	held := store.AddressByIP(tx, req.Domain(), ip)
	if held != nil && held.CountsFor(req.Holder, req.Node) && (held.Attachment == req.Attachment || held.IsHeldBack()) {
		return nil
	}
	if cause != "" {
		return refuse(v1alpha1.IPReservedReason, WhenSubnetsChange,
			"%s is %s of %s: use another address, or remove the request", ip, cause, of)
	}
	if held != nil {
		return inUse(tx, held, req)
	}
	if instance := reservedForOthers(tx, req, ip); instance != nil {
		return refuse(
			v1alpha1.IPReservedReason,
			WhenSubnetsChange,
			"%s is reserved by PodNetworkInstance %s/%s: use another address, or delete that instance",
			ip,
			instance.Namespace,
			instance.Name,
		)
	}
	if heldByPeer(tx, req, ip) != nil {
		return refuse(
			v1alpha1.IPInUseReason,
			WhenReleased,
			"%s is in use in another network on the same segment as %s: use another address, or wait until it is released",
			ip,
			of,
		)
	}
	if _, excluded := req.Exclude[ip]; excluded {
		return refuse(v1alpha1.IPInUseReason, WhenReleased,
			"%s is in use: use another address, or wait until it is released", ip)
	}
	return nil
}

// inUse names the holder of an address, and when the address may become free.
func inUse(tx store.ReadTx, held *store.Address, req *Request) *Error {
	holder := held.Holder
	err := takenBy(tx, held, req)
	err.Holder = &holder
	return err
}

func takenBy(tx store.ReadTx, held *store.Address, req *Request) *Error {
	name := held.Holder.Namespace + "/" + held.Holder.Name
	switch held.Holder.Kind {
	case store.HolderNode:
		return refuse(v1alpha1.IPInUseReason, WhenReleased,
			"%s is the address of node %s: use another address, or remove the request", held.IP, held.Holder.Name)
	case store.HolderService:
		return refuse(v1alpha1.IPInUseReason, WhenReleased,
			"%s is held by Service %s: use another address, or delete that Service", held.IP, name)
	case store.HolderPod:
	}
	pod := store.GetPod(tx, held.Holder.UID)
	switch {
	case pod == nil:
		return refuse(
			v1alpha1.IPReleasingReason,
			WhenReleased,
			"%s is still held by pod %s, which is gone from the API, until node %s has released it; if that node is permanently lost, delete its Node object or taint it with node.kubernetes.io/out-of-service",
			held.IP,
			name,
			held.Node,
		)
	case pod.Deleting || pod.Terminal:
		return refuse(v1alpha1.IPReleasingReason, WhenReleased,
			"%s is held by pod %s, which is ending: waiting for it", held.IP, name)
	case pod.OwnerUID != "" && pod.OwnerUID == req.OwnerUID:
		return refuse(
			v1alpha1.IPInUseReason,
			WhenReleased,
			"%s is held by pod %s of the same owner: a fixed address serves one pod at a time, so use one replica and the update strategy Recreate",
			held.IP,
			name,
		)
	}
	return refuse(v1alpha1.IPInUseReason, WhenReleased,
		"%s is held by pod %s: use another address, or delete that pod", held.IP, name)
}

// exhausted reports that no subnet has a free address in every requested family.
func exhausted(subnets []*store.Subnet, req *Request) *Error {
	if req.PodNetwork != "" && req.Instance != "" {
		return refuse(
			v1alpha1.SubnetExhaustedReason,
			WhenReleased,
			"PodNetworkInstance %s has no free address in PodNetwork %q: reserve more, or delete pods",
			req.Instance,
			req.PodNetwork,
		)
	}
	holders := "pods"
	if req.Holder.Kind == store.HolderService {
		holders = "Services"
	}
	if len(subnets) == 1 {
		return refuse(
			v1alpha1.SubnetExhaustedReason,
			WhenReleased,
			"subnet %s of VPC %q has no free address left in every family that is wanted: delete %s, enlarge it, or use another subnet",
			names(subnets),
			req.VPC,
			holders,
		)
	}
	return refuse(v1alpha1.SubnetExhaustedReason, WhenReleased,
		"none of the %d subnets of VPC %q has a free address left in every family that is wanted: delete %s, or add a subnet",
		len(subnets), req.VPC, holders)
}
