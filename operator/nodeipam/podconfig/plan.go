// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podconfig

import (
	"cmp"
	"net/netip"
	"slices"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	pods "github.com/alioth-net/alioth/operator/nodeipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

type state = multitenancyv1alpha1.PodNetworkConfigState

// content is the content of a pod's config.
type content struct {
	name, uid   string
	choice      multitenancyv1alpha1.PodNetworkChoice
	node        string
	state       state
	interfaces  []multitenancyv1alpha1.InterfaceInfo
	defaultDeny bool
}

// decide returns the content of a pod's config, nil for a pod without one.
func decide(tx store.ReadTx, pod *store.Pod) *content {
	if pod == nil || !pods.IsMultitenant(pod) || !served(tx, pod) {
		return nil
	}
	c := &content{name: pod.Name, uid: pod.UID, node: pod.Node, state: stateOf(tx, pod)}
	c.choice.PodNetworkInstance = pod.Labels[multitenancyv1alpha1.PodNetworkInstanceLabel]
	c.choice.PodNetwork = pod.Labels[multitenancyv1alpha1.PodNetworkLabel]
	names := pods.PodNetworks(tx, pod)
	if len(names) > 0 {
		c.choice.PodNetwork = names[0]
	}
	if row := nodeipam.ServingInstance(tx, pod.Namespace, c.choice.PodNetworkInstance); row != nil {
		c.defaultDeny = row.DefaultDeny
	}
	// Clients use any address that they see.
	if c.state == multitenancyv1alpha1.ConfigReady || c.state == multitenancyv1alpha1.ConfigDeleting {
		c.interfaces = interfacesOf(tx, pod, names)
	}
	return c
}

// served reports whether the API serves a pod: by its Addresses if it has them, whatever
// became of the node's label.
func served(tx store.ReadTx, pod *store.Pod) bool {
	if held := held(tx, pod); len(held) > 0 {
		return slices.ContainsFunc(held, func(row *store.Address) bool { return row.External })
	}
	return pods.Serves(tx, pod)
}

// held returns the Addresses of a pod's interfaces.
func held(tx store.ReadTx, pod *store.Pod) []*store.Address {
	return slices.DeleteFunc(store.AddressesByPod(tx, pod), (*store.Address).IsHeldBack)
}

func stateOf(tx store.ReadTx, pod *store.Pod) state {
	switch {
	case pod.Deleting || pod.Terminal:
		return multitenancyv1alpha1.ConfigDeleting
	case claimed(tx, pod):
		return multitenancyv1alpha1.ConfigReady
	}
	switch pod.Reason {
	case "", v1alpha1.AttachedReason:
		return multitenancyv1alpha1.ConfigPending
	case v1alpha1.PodNetworkInstanceNotFoundReason:
		return multitenancyv1alpha1.ConfigInstanceNotFound
	case v1alpha1.PodNetworkInstanceNotReadyReason, v1alpha1.PodNetworkNotReadyReason:
		return multitenancyv1alpha1.ConfigInstanceNotReady
	case v1alpha1.NodeCapacityReason:
		return multitenancyv1alpha1.ConfigNodeFull
	case v1alpha1.SubnetExhaustedReason:
		return multitenancyv1alpha1.ConfigNoAddresses
	}
	return multitenancyv1alpha1.ConfigInternalError
}

// claimed reports whether the API has an Address for each address of each interface in a
// pod's allocation status and no others, and one of them is in a PodNetwork. The Addresses
// are the decision; the allocation status shows that it is complete.
func claimed(tx store.ReadTx, pod *store.Pod) bool {
	delegated, lacking := false, len(held(tx, pod))
	for _, one := range allocation.Status(pod) {
		ips := allocation.IPs(one)
		if one.Kind != netif.KindExternal || len(ips) == 0 {
			return false
		}
		for _, ip := range ips {
			row := store.AddressByIP(tx, one.VPC, ip)
			if row == nil || row.UID == "" || !row.External || !pod.Holds(row) || row.Attachment != one.Name {
				return false
			}
			lacking--
		}
		delegated = delegated || one.Name != v1alpha1.PodAttachment
	}
	return delegated && lacking == 0
}

// interfacesOf describes the interfaces of a pod in PodNetworks by its Addresses. names are the
// PodNetworks. An interface with two addresses shows its IPv4 address.
func interfacesOf(tx store.ReadTx, pod *store.Pod, names []string) []multitenancyv1alpha1.InterfaceInfo {
	type one struct {
		index int
		row   *store.Address
	}
	var all []one
	for _, row := range store.AddressesByPod(tx, pod) {
		if index, ok := pods.IndexOf(row.Attachment); ok && row.External && row.UID != "" {
			all = append(all, one{index, row})
		}
	}
	slices.SortFunc(all, func(a, b one) int { return cmp.Or(cmp.Compare(a.index, b.index), a.row.IP.Compare(b.row.IP)) })
	all = slices.CompactFunc(all, func(a, b one) bool { return a.index == b.index })
	var infos []multitenancyv1alpha1.InterfaceInfo
	for _, one := range all {
		var network *nodeipam.PodNetwork
		if one.index < len(names) {
			network = nodeipam.ServingPodNetwork(tx, names[one.index])
		}
		infos = append(infos, describe(tx, one.row, network))
	}
	return infos
}

// describe describes an interface in a PodNetwork, which is nil if it is gone.
func describe(tx store.ReadTx, row *store.Address, network *nodeipam.PodNetwork) multitenancyv1alpha1.InterfaceInfo {
	info := multitenancyv1alpha1.InterfaceInfo{
		NCID: row.UID, PrimaryIP: netip.PrefixFrom(row.IP, row.IP.BitLen()).String(), MacAddress: row.MAC,
		DeviceType: multitenancyv1alpha1.DeviceTypeVnetNIC, NetworkID: row.VPC,
	}
	if network != nil && network.VPC == row.VPC {
		info.SubnetGUID, info.SubnetResourceID = network.SubnetGUID, network.SubnetResourceID
	}
	subnet := store.GetSubnet(tx, row.Subnet)
	if subnet == nil {
		return info
	}
	for i, prefix := range subnet.Prefixes {
		if prefix.Contains(row.IP) {
			info.SubnetAddressSpace, info.GatewayIP = prefix.Masked().String(), subnet.Gateways[i].String()
		}
	}
	return info
}
