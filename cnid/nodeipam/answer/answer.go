// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package answer makes the answer of the node IPAM API from the interfaces of a pod: its
// entries, and their routes. It is pure.
//
// Of all interfaces of a pod exactly one has default routes: the first delegated device, or else
// the interface that was asked for. The other interfaces reach the destinations that are named
// for them. So a pod with a tenant's network leaves by that network, and still reaches cluster
// DNS, Services and the node by its first interface.
package answer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// The gateways that clients of CNS know. They make an entry in the pod's neighbour table
// for them, with the address of the device at the other end.
var (
	// deviceGateway is the next hop of a delegated device, which has a single address and
	// no subnet.
	deviceGateway4 = netip.MustParseAddr("169.254.2.1")
	deviceGateway6 = netip.MustParseAddr("fe80::1234:5678:9abc")
	// infraGateway is the next hop of the first interface beside a delegated device.
	infraGateway4 = netip.MustParseAddr("169.254.1.1")
	infraGateway6 = netip.MustParseAddr("fe80::1234:5678:9abc")
)

// Interface is one interface of a pod.
type Interface struct {
	// Name is the interface in the pod.
	Name string
	// NIC is wire.InfraNIC or wire.FrontendNIC.
	NIC wire.NICType
	// MAC in lower case with colons; "" where the client chooses.
	MAC string
	// ID identifies the interface for clients.
	ID string
	// Addresses has at least one, and at most one of each family.
	Addresses []Address
	// DNS are the servers of the subnet; nil for the servers of the cluster.
	DNS []netip.Addr
}

// Address is one address of an interface.
type Address struct {
	// Prefix is the address with the prefix length of its subnet.
	Prefix netip.Prefix
	// Gateway of the subnet, the zero value without one.
	Gateway netip.Addr
	// ID identifies the address, for example the UID of its object.
	ID string
}

// Node is the common part of the answers on a node.
type Node struct {
	// Host is the node's own network. Some clients need it.
	Host wire.HostIPInfo
	// Infra are the ranges that a pod with a delegated device reaches by its first interface:
	// ranges of nodes, Services and pods.
	Infra []netip.Prefix
	// Nearby are the node's own networks. Such a pod reaches them in the same way unless a device
	// of its own is in one of them.
	Nearby []netip.Prefix
}

// infra returns the ranges that a pod with these interfaces reaches by its first one.
func (n Node) infra(interfaces []Interface) []netip.Prefix {
	all := slices.Clone(n.Infra)
	for _, near := range n.Nearby {
		if !slices.ContainsFunc(interfaces, func(one Interface) bool {
			return one.NIC == wire.FrontendNIC &&
				slices.ContainsFunc(one.Addresses, func(a Address) bool { return a.Prefix.Overlaps(near) })
		}) {
			all = append(all, near)
		}
	}
	return all
}

// Entries returns the entries of an answer, in the order of the interfaces: one for each
// device, and of other interfaces one for each address. requested is the name of the
// interface that was asked for.
func Entries(requested string, interfaces []Interface, node Node) ([]wire.PodIPInfo, error) {
	if len(interfaces) == 0 {
		return nil, fmt.Errorf("interface %s has no address", requested)
	}
	entries := make([]wire.PodIPInfo, 0, len(interfaces))
	leads, control := leading(requested, interfaces)
	infra := node.infra(interfaces)
	for i, one := range interfaces {
		if err := check(one); err != nil {
			return nil, err
		}
		if one.NIC == wire.FrontendNIC {
			entries = append(entries, deviceOf(one, node.Host, i == leads))
			continue
		}
		for _, address := range one.Addresses {
			entry := entryOf(one, address, node.Host)
			entry.SkipDefaultRoutes = i != leads
			if i == control && i != leads {
				entry.Routes = infraRoutes(address, infra)
			}
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// leading returns the index of the interface with the default routes, and the index of the pod's
// interface to the cluster, which is -1 without one.
func leading(requested string, interfaces []Interface) (leads, control int) {
	device, control := -1, -1
	for i, one := range interfaces {
		switch {
		case one.NIC == wire.FrontendNIC && device < 0:
			device = i
		case one.NIC != wire.FrontendNIC && (control < 0 || one.Name == requested):
			control = i
		}
	}
	if device >= 0 {
		return device, control
	}
	return control, control
}

// check refuses answers that clients could not tell apart, or would misread.
func check(one Interface) error {
	if len(one.Addresses) == 0 {
		return fmt.Errorf("interface %s has no address", one.Name)
	}
	if one.NIC == wire.FrontendNIC && one.MAC == "" {
		return fmt.Errorf("the delegated device %s has no Ethernet address", one.Name)
	}
	var has [2]bool
	for _, address := range one.Addresses {
		if !address.Prefix.IsValid() {
			return fmt.Errorf("interface %s has an empty address", one.Name)
		}
		family := ipfamily.Of(address.Prefix.Addr()).Index()
		if has[family] {
			return fmt.Errorf("interface %s has two addresses of the family of %s", one.Name, address.Prefix)
		}
		has[family] = true
	}
	return nil
}

// entryOf returns the entry of an address without routes. The client adds the default routes
// of an interface of its own by itself, via the gateway of its subnet.
func entryOf(one Interface, address Address, host wire.HostIPInfo) wire.PodIPInfo {
	return wire.PodIPInfo{
		PodIPConfig:                     subnetOf(address.Prefix),
		NetworkContainerPrimaryIPConfig: configuration(one, address),
		HostPrimaryIPInfo:               host,
		NICType:                         one.NIC,
		InterfaceName:                   one.Name,
		MacAddress:                      one.MAC,
		NetworkContainerID:              one.ID,
		Routes:                          []wire.Route{},
	}
}

// deviceOf returns the entry of a delegated device, with all of its addresses and routes.
func deviceOf(one Interface, host wire.HostIPInfo, leads bool) wire.PodIPInfo {
	addresses := slices.Clone(one.Addresses)
	slices.SortStableFunc(
		addresses,
		func(a, b Address) int { return cmp.Compare(a.Prefix.Addr().BitLen(), b.Prefix.Addr().BitLen()) },
	)
	entry := entryOf(one, addresses[0], host)
	entry.PodIPConfig = alone(addresses[0])
	for i, address := range addresses {
		entry.Routes = append(entry.Routes, deviceRoutes(address, leads)...)
		if i > 0 {
			second := wire.IPConfiguration{
				IPSubnet:           alone(address),
				DNSServers:         []string{},
				GatewayIPv6Address: deviceGateway6.String(),
			}
			if address.Gateway.IsValid() {
				second.GatewayIPv6Address = address.Gateway.String()
			}
			entry.NetworkContainerIPv6Config = &second
		}
	}
	return entry
}

// alone returns an address without its subnet: a delegated device has none on its link.
func alone(address Address) wire.IPSubnet {
	return subnetOf(netip.PrefixFrom(address.Prefix.Addr(), address.Prefix.Addr().BitLen()))
}

func configuration(one Interface, address Address) wire.IPConfiguration {
	conf := wire.IPConfiguration{IPSubnet: subnetOf(address.Prefix.Masked()), DNSServers: []string{}}
	for _, server := range one.DNS {
		conf.DNSServers = append(conf.DNSServers, server.String())
	}
	if address.Gateway.IsValid() {
		conf.GatewayIPAddress = address.Gateway.String()
		if address.Gateway.Is6() {
			conf.GatewayIPv6Address = conf.GatewayIPAddress
		}
	}
	return conf
}

func subnetOf(prefix netip.Prefix) wire.IPSubnet {
	return wire.IPSubnet{IPAddress: prefix.Addr().String(), PrefixLength: uint8(prefix.Bits())}
}

// deviceRoutes returns the routes of an address of a delegated device. Clients refuse one
// without any.
func deviceRoutes(address Address, leads bool) []wire.Route {
	family := ipfamily.Of(address.Prefix.Addr())
	gateway := ipfamily.Pick(family, deviceGateway4, deviceGateway6)
	list := []wire.Route{route(netip.PrefixFrom(gateway, gateway.BitLen()), netip.Addr{})}
	target := address.Prefix.Masked()
	if leads {
		target = family.All()
	}
	if !target.IsSingleIP() {
		list = append(list, route(target, gateway))
	}
	return list
}

// infraRoutes returns the routes to the cluster, of the family of an address.
func infraRoutes(address Address, infra []netip.Prefix) []wire.Route {
	family := ipfamily.Of(address.Prefix.Addr())
	list := []wire.Route{}
	for _, prefix := range infra {
		if family.Has(prefix.Addr()) {
			list = append(list, route(prefix.Masked(), ipfamily.Pick(family, infraGateway4, infraGateway6)))
		}
	}
	return list
}

func route(target netip.Prefix, gateway netip.Addr) wire.Route {
	via := ""
	if gateway.IsValid() {
		via = gateway.String()
	}
	return wire.Route{IPAddress: target.String(), GatewayIPAddress: via}
}
