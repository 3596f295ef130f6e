// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
)

// reservedForOthers returns the instance that keeps an address from a request, or nil.
func reservedForOthers(tx store.ReadTx, req *Request, ip netip.Addr) *nodeipam.Instance {
	if req.Network != nil {
		return nil
	}
	var other *nodeipam.Instance
	for _, row := range nodeipam.ReservedBy(tx, req.VPC, ip) {
		if nameOf(row) == req.Instance {
			return nil
		}
		other = row
	}
	return other
}

func nameOf(instance *nodeipam.Instance) string { return instance.Namespace + "/" + instance.Name }

// instanceServes refuses a pod whose instance is not Ready any longer: the source of its
// attachments has looked at it in an earlier transaction.
func instanceServes(tx store.ReadTx, req *Request) error {
	namespace, name, ok := strings.Cut(req.Instance, "/")
	if !ok || req.PodNetwork == "" {
		return nil
	}
	switch instance := nodeipam.ServingInstance(tx, namespace, name); {
	case instance == nil:
		return refuse(
			v1alpha1.PodNetworkInstanceNotReadyReason,
			WhenSubnetsChange,
			"PodNetworkInstance %s is gone: create it again",
			req.Instance,
		)
	case instance.Deleting || !instance.Ready:
		return refuse(
			v1alpha1.PodNetworkInstanceNotReadyReason,
			WhenSubnetsChange,
			"PodNetworkInstance %s is not Ready: see `%s`",
			req.Instance,
			instance.Describe(),
		)
	}
	return nil
}

// reserved returns the free addresses of a prefix that the request's instance has reserved
// for its PodNetwork, and nil if it has reserved none there.
func (req *Request) reserved(tx store.ReadTx, prefix netip.Prefix) []netip.Addr {
	namespace, name, ok := strings.Cut(req.Instance, "/")
	if !ok || req.PodNetwork == "" {
		return nil
	}
	instance := nodeipam.ServingInstance(tx, namespace, name)
	if instance == nil {
		return nil
	}
	var own []netip.Addr
	for _, reserved := range instance.Reserved {
		if reserved.PodNetwork == req.PodNetwork && reserved.VPC == req.VPC {
			own = append(own, reserved.IPs...)
		}
	}
	own = slices.DeleteFunc(own, func(ip netip.Addr) bool { return !prefix.Contains(ip) })
	if len(own) == 0 {
		return nil
	}
	return slices.DeleteFunc(own, func(ip netip.Addr) bool { return store.AddressByIP(tx, req.VPC, ip) != nil })
}

// freeDevice returns the first of the requested devices that no other attachment has, or ""
// if none is requested.
func freeDevice(tx store.ReadTx, req *Request) (string, error) {
	if req.Devices == nil {
		return "", nil
	}
	held := map[string]bool{}
	for _, row := range store.AddressesByNode(tx, req.Node) {
		own := row.CountsFor(req.Holder, req.Node) && row.Attachment == req.Attachment
		held[row.MAC] = held[row.MAC] || row.External && !own
	}
	for _, mac := range req.Devices {
		if !held[mac] {
			return mac, nil
		}
	}
	offers := "offers none"
	if len(req.Devices) > 0 {
		offers = fmt.Sprintf("offers %d, and all are in use", len(req.Devices))
	}
	return "", refuse(
		v1alpha1.NodeCapacityReason,
		WhenReleased,
		"the interface needs a device of node %s, and the node %s: schedule the pod to another node, or name more devices in nodeIPAM.devices",
		req.Node,
		offers,
	)
}

// Reserve chooses addresses of one family of a subnet for an instance: as many as wanted, or
// those that are free. wanted is at least 0.
func Reserve(tx store.ReadTx, subnet *store.Subnet, family ipfamily.Family, wanted int) []netip.Addr {
	req := Request{VPC: subnet.VPC, Holder: store.Holder{Kind: store.HolderPod}, Exclude: map[netip.Addr]struct{}{}}
	var list []netip.Addr
	for _, prefix := range subnet.Prefixes {
		if !family.Has(prefix.Addr()) {
			continue
		}
		ring := ringOf(tx, subnet, prefix)
		for ip := range ring.free(tx) {
			if len(list) == wanted {
				return list
			}
			if reservedForOthers(tx, &req, ip) == nil {
				list = append(list, ip)
			}
		}
	}
	return list
}

// Reservable returns why an instance can't reserve an address of a subnet, or nil.
func Reservable(tx store.ReadTx, subnet *store.Subnet, instance string, ip netip.Addr) error {
	req := Request{VPC: subnet.VPC, Instance: instance, Holder: store.Holder{Kind: store.HolderPod}}
	if !containsAll(subnet, []netip.Addr{ip}) {
		return refuse(
			v1alpha1.IPOutsideSubnetReason,
			WhenSubnetsChange,
			"%s is not in subnet %s: %s",
			ip,
			subnet.Name,
			ranges(subnet),
		)
	}
	return available(tx, ip, blockedBy(prefixOf(subnet, ip), reservesOf(subnet), ip), "subnet "+subnet.Name, &req)
}

// SubnetNamed finds the subnet that a VPC has under a name, as Choose does for pods. It falls back
// to a subnet for load balancers, and returns nil if the VPC has neither.
func SubnetNamed(tx store.ReadTx, vpc, name string) *store.Subnet {
	pods, others := subnetsFor(tx, &Request{VPC: vpc, Holder: store.Holder{Kind: store.HolderPod}})
	if found := byName(pods, name); found != nil {
		return found
	}
	return byName(others, name)
}
