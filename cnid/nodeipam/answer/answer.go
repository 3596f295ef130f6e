// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package answer makes the answer of the node IPAM API from the interfaces of a pod: its
// entries, and their routes. It is pure.
//
// Of all interfaces of a pod exactly one has default routes: the first delegated device,
// or else the interface that was asked for. The other interfaces reach what is named for
// them. So a pod with a tenant's network leaves by that network, and still reaches
// cluster DNS, Services and the node by its first interface.
package answer

import (
	"fmt"
	"net/netip"

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
	// DNS are the servers of the subnet; nil for those of the cluster.
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

// Node is what answers on a node have in common.
type Node struct {
	// Host is the node's own network. Some clients need it.
	Host wire.HostIPInfo
	// Infra are the ranges that a pod with a delegated device reaches by its first
	// interface: those of nodes, Services and pods.
	Infra []netip.Prefix
}

// Entries returns the entries of an answer: one for each address, in the order of the
// interfaces. requested is the name of the interface that was asked for.
func Entries(requested string, interfaces []Interface, node Node) ([]wire.PodIPInfo, error) {
	if len(interfaces) == 0 {
		return nil, fmt.Errorf("interface %s has no address", requested)
	}
	entries := make([]wire.PodIPInfo, 0, len(interfaces))
	leads, control := leading(requested, interfaces)
	for i, one := range interfaces {
		if err := check(one); err != nil {
			return nil, err
		}
		for _, address := range one.Addresses {
			entry := entryOf(one, address, node.Host)
			entry.SkipDefaultRoutes = one.NIC != wire.FrontendNIC && i != leads
			switch {
			case one.NIC == wire.FrontendNIC:
				entry.Routes = deviceRoutes(address, i == leads)
			case i == control && i != leads:
				entry.Routes = infraRoutes(address, node.Infra)
			}
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// leading returns the index of the interface with the default routes, and that of the
// interface by which the pod reaches the cluster, which is -1 without one.
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

// check refuses what clients could not tell apart, or would misread.
func check(one Interface) error {
	if len(one.Addresses) == 0 {
		return fmt.Errorf("interface %s has no address", one.Name)
	}
	if one.NIC == wire.FrontendNIC && one.MAC == "" {
		return fmt.Errorf("the delegated device %s has no Ethernet address", one.Name)
	}
	var family [2]bool
	for _, address := range one.Addresses {
		if !address.Prefix.IsValid() {
			return fmt.Errorf("interface %s has an empty address", one.Name)
		}
		is6 := 0
		if address.Prefix.Addr().Is6() {
			is6 = 1
		}
		if family[is6] {
			return fmt.Errorf("interface %s has two addresses of the family of %s", one.Name, address.Prefix)
		}
		family[is6] = true
	}
	return nil
}

func entryOf(one Interface, address Address, host wire.HostIPInfo) wire.PodIPInfo {
	length := address.Prefix.Bits()
	if one.NIC == wire.FrontendNIC {
		length = address.Prefix.Addr().BitLen() // a delegated device has no subnet on its link
	}
	return wire.PodIPInfo{
		PodIPConfig:                     subnetOf(netip.PrefixFrom(address.Prefix.Addr(), length)),
		NetworkContainerPrimaryIPConfig: configuration(one, address),
		HostPrimaryIPInfo:               host,
		NICType:                         one.NIC,
		InterfaceName:                   one.Name,
		MacAddress:                      one.MAC,
		NetworkContainerID:              one.ID,
		// The client adds the default routes of an interface of its own by itself, via the
		// gateway of its subnet.
		Routes: []wire.Route{},
	}
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
	is6 := address.Prefix.Addr().Is6()
	gateway := byFamily(is6, deviceGateway4, deviceGateway6)
	list := []wire.Route{route(netip.PrefixFrom(gateway, gateway.BitLen()), netip.Addr{})}
	target := address.Prefix.Masked()
	if leads {
		target = byFamily(is6, netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0))
	}
	if !target.IsSingleIP() {
		list = append(list, route(target, gateway))
	}
	return list
}

// infraRoutes returns the routes to the cluster, of the family of an address.
func infraRoutes(address Address, infra []netip.Prefix) []wire.Route {
	is6 := address.Prefix.Addr().Is6()
	list := []wire.Route{}
	for _, prefix := range infra {
		if prefix.Addr().Is6() == is6 {
			list = append(list, route(prefix.Masked(), byFamily(is6, infraGateway4, infraGateway6)))
		}
	}
	return list
}

func byFamily[T any](is6 bool, four, six T) T {
	if is6 {
		return six
	}
	return four
}

func route(target netip.Prefix, gateway netip.Addr) wire.Route {
	via := ""
	if gateway.IsValid() {
		via = gateway.String()
	}
	return wire.Route{IPAddress: target.String(), GatewayIPAddress: via}
}
