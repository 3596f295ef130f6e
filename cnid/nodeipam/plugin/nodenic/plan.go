// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenic

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// Interface is a device of the node as the pod gets it.
type Interface struct {
	// Name is the one in the pod.
	Name string           `json:"name"`
	MAC  net.HardwareAddr `json:"mac"`
	// Addrs have no subnet on the link: they are a /32 or a /128.
	Addrs  []netip.Prefix `json:"addrs"`
	Routes []netif.Route  `json:"routes"`
}

// Wanted returns the delegated devices in an answer of the node IPAM API, each with all of
// its entries. ifName is the interface that another plugin makes.
func Wanted(entries []wire.PodIPInfo, ifName string) ([]Interface, error) {
	var list []Interface
	for _, entry := range entries {
		if entry.NICType != wire.FrontendNIC {
			continue
		}
		if entry.InterfaceName == ifName {
			return nil, fmt.Errorf(
				"the service's answer: interface %s is a device of the node, and another plugin makes it",
				quote.Name(ifName),
			)
		}
		one, err := interfaceOf(entry)
		if err == nil {
			list, err = merge(list, one)
		}
		if err != nil {
			return nil, fmt.Errorf("the service's answer: interface %s: %w", quote.Text(entry.InterfaceName), err)
		}
	}
	return distinct(list), nil
}

// distinct leaves out the routes to the link that an earlier device has: each device has
// one to the same gateway, and the kernel wants one. The routes via the gateway name their
// device, and do without.
func distinct(list []Interface) []Interface {
	known := map[netip.Prefix]bool{}
	for i := range list {
		list[i].Routes = slices.DeleteFunc(list[i].Routes, func(r netif.Route) bool {
			again := !r.Gateway.IsValid() && known[r.Dst]
			known[r.Dst] = known[r.Dst] || !r.Gateway.IsValid()
			return again
		})
	}
	return list
}

// interfaceOf reads one entry. An entry without a route is refused, as clients of CNS do:
// an address without a subnet reaches nothing.
func interfaceOf(entry wire.PodIPInfo) (Interface, error) {
	one := Interface{Name: entry.InterfaceName}
	if err := wire.CheckIfname(one.Name); err != nil || one.Name == "" {
		return one, errors.Join(errors.New("a device needs a name in the pod"), err)
	}
	mac, err := net.ParseMAC(entry.MacAddress)
	if err != nil || len(mac) != 6 {
		return one, fmt.Errorf("%s is no Ethernet address", quote.Text(entry.MacAddress))
	}
	one.MAC = mac
	addresses := []wire.IPSubnet{entry.PodIPConfig}
	if second := entry.NetworkContainerIPv6Config; second != nil {
		addresses = append(addresses, second.IPSubnet)
	}
	for _, address := range addresses {
		addr, err := netip.ParseAddr(address.IPAddress)
		if err != nil {
			return one, quote.Error(err)
		}
		if bits := int(address.PrefixLength); bits != addr.BitLen() {
			return one, fmt.Errorf("address %s has the prefix length %d, want %d", addr, bits, addr.BitLen())
		}
		if len(entry.Routes) == 0 {
			return one, fmt.Errorf("address %s has no routes", addr)
		}
		one.Addrs = append(one.Addrs, netip.PrefixFrom(addr, addr.BitLen()))
	}
	for _, route := range entry.Routes {
		read, err := routeOf(route)
		if err != nil {
			return one, err
		}
		one.Routes = append(one.Routes, read)
	}
	return one, nil
}

func routeOf(route wire.Route) (netif.Route, error) {
	dst, err := netip.ParsePrefix(route.IPAddress)
	if err != nil {
		return netif.Route{}, quote.Error(err)
	}
	read := netif.Route{Dst: dst.Masked()}
	if route.GatewayIPAddress == "" {
		return read, nil
	}
	if read.Gateway, err = netip.ParseAddr(route.GatewayIPAddress); err != nil {
		return read, quote.Error(err)
	}
	if read.Gateway.Is4() != dst.Addr().Is4() {
		return read, fmt.Errorf("route to %s has the gateway %s of another family", dst, read.Gateway)
	}
	return read, nil
}

// merge adds an entry to the list: to the device that has its name, or as another device.
func merge(list []Interface, one Interface) ([]Interface, error) {
	for i, known := range list {
		sameName, sameMAC := known.Name == one.Name, bytes.Equal(known.MAC, one.MAC)
		if sameName != sameMAC {
			return nil, fmt.Errorf("device %s is %s, and device %s is %s", known.MAC, known.Name, one.MAC, one.Name)
		}
		if sameName {
			list[i].Addrs = append(known.Addrs, one.Addrs...)
			list[i].Routes = append(known.Routes, one.Routes...)
			return list, nil
		}
	}
	return append(list, one), nil
}

// spec returns the interface for the code that configures and checks it. A device keeps its MTU.
func (i Interface) spec() ifdriver.Spec {
	spec := ifdriver.Spec{IfName: i.Name, Addrs: i.Addrs, MAC: i.MAC, Config: netif.Config{Routes: i.Routes}}
	if slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
		// It is on an Ethernet with others, who expect a link-local address.
		spec.IPv6 = netif.IPv6On
	}
	return spec
}
