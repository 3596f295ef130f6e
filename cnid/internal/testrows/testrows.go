// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testrows makes rows of the store for tests of the daemon.
package testrows

import (
	"errors"
	"net"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
)

// Meta returns the first version of an object.
func Meta(uid string) store.Meta { return store.Meta{UID: uid, ResourceVersion: "1"} }

// VPC returns a ready VPC. A VPC with the name default masquerades egress.
func VPC(name string, vni uint32, cidrs ...string) store.VPC {
	row := store.VPC{Meta: Meta(name), Name: name, VNI: vni, Ready: true, EgressMasquerade: name == "default"}
	for _, cidr := range cidrs {
		row.Prefixes = append(row.Prefixes, netip.MustParsePrefix(cidr))
	}
	return row
}

// Subnet returns a subnet that is ready, of pairs of range and gateway.
func Subnet(name, vpc string, cidrsAndGateways ...string) store.Subnet {
	row := store.Subnet{Meta: Meta(name), Name: name, VPC: vpc, ShortName: name, Ready: true}
	for pair := range slices.Chunk(cidrsAndGateways, 2) {
		row.Prefixes = append(row.Prefixes, netip.MustParsePrefix(pair[0]))
		row.Gateways = append(row.Gateways, netip.MustParseAddr(pair[1]))
	}
	return row
}

// Node returns a node with these InternalIPs.
func Node(name string, addrs ...string) store.Node {
	row := store.Node{Meta: Meta(name), Name: name}
	for _, addr := range addrs {
		row.Addresses = append(row.Addresses, netip.MustParseAddr(addr))
	}
	row.AllAddresses = row.Addresses
	return row
}

// Address returns the Address of an IP that a holder has on a node as eth0, its only interface, with
// all IPs of the set. The MAC is the MAC of the set's first IP.
func Address(vpc, subnet, ip, node string, holder store.Holder, set ...string) store.Address {
	row := store.Address{
		Meta: Meta(vpc + ip), Name: vpc + "." + ip, VPC: vpc, Subnet: subnet, IP: netip.MustParseAddr(ip), Node: node,
		Holder: holder, Attachment: v1alpha1.PodAttachment,
	}
	if holder.Kind == store.HolderPod {
		row.Config, row.Interfaces = &netif.VPCConfig{}, []string{v1alpha1.PodAttachment}
	}
	for _, addr := range set {
		row.Set = append(row.Set, netip.MustParseAddr(addr))
	}
	first := row.Set[0].As16()
	row.MAC = append(net.HardwareAddr{2, 0}, first[12:]...).String()
	return row
}

// PutClaims puts the AttachmentClaims and Addresses of a pod's attachments outside of every
// VPC, as the operator makes them for the annotation.
func PutClaims(tx store.Tx, pod *store.Pod) error {
	list, err := annotations.ParseAttachmentsHashed(pod.Attachments)
	if err != nil {
		return err
	}
	var names []string
	for _, element := range list {
		names = append(names, element.Name)
	}
	for i, element := range list {
		if element.Outside == "" {
			continue
		}
		network, ok := allocation.NetworkOf(element.Interface)
		if !ok {
			network = store.NetworkRef{Kind: "ClusterNetwork", Name: element.Outside, UID: element.OutsideUID}
		}
		if i > 0 {
			names = nil
		}
		err = errors.Join(err, multinet.PutClaim(tx, &multinet.Claim{
			Interfaces: names,
			Meta: Meta(
				pod.UID + element.Name,
			), Namespace: pod.Namespace, Name: v1alpha1.AttachmentClaimName(pod.UID, element.Name),
			PodName: pod.Name, PodUID: pod.UID, Node: pod.Node, Interface: element.Name, Driver: element.Kind, Network: network,
			Config: &element.Interface, ConfigHash: element.Hash,
		}))
		for _, prefix := range element.Addresses {
			row := &store.Address{
				Meta: Meta(
					network.Domain() + prefix.String(),
				), Name: v1alpha1.AddressName(network.Domain(), prefix.Addr()), Network: network,
				IP: prefix.Addr(), Node: pod.Node, Holder: pod.AsHolder(), Attachment: element.Name,
				Set: []netip.Addr{prefix.Addr()},
			}
			if i == 0 {
				row.Attachment = v1alpha1.PodAttachment
			}
			err = errors.Join(err, store.PutAddress(tx, row))
		}
	}
	return err
}

// Configure gives the Addresses of a pod's interfaces in VPCs the configurations of these
// interfaces, as the operator does.
func Configure(rows []store.Address, podUID string, list []netif.Interface) {
	var names []string
	for _, one := range list {
		names = append(names, one.Name)
	}
	for i := range rows {
		if rows[i].Holder.UID != podUID {
			continue
		}
		for _, one := range list {
			if config := one.VPCConfig(); one.Name == rows[i].Attachment {
				rows[i].Config, rows[i].Interfaces = &config, nil
			}
		}
		if rows[i].Attachment == v1alpha1.PodAttachment {
			rows[i].Interfaces = names
		}
	}
}
