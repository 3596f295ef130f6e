// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ifdriver

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/netif"
)

// Result is the report of a delegated attachment's plugin (CNI 1.1, section "ADD success"). Only
// outputs for users, and routes and rules inside the pod, depend on the report.
type Result struct {
	// Interfaces may be empty, as results before CNI 0.3.0 have none.
	Interfaces []ResultInterface
	Addrs      []ResultAddr
	Routes     []ResultRoute
	DNS        ResultDNS
}

// ResultInterface is a device that a plugin has made, on the node or in the pod.
type ResultInterface struct {
	Name string
	// MAC is in text form, "" if the plugin does not report it.
	MAC string
	// MTU is in bytes, 0 if the plugin does not report it.
	MTU int
	// Sandbox is the network namespace of the pod, "" for a device on the node.
	Sandbox string
	// SocketPath and PCIID belong to devices that are not network devices of the kernel.
	SocketPath, PCIID string
}

// ResultAddr is an address of the pod.
type ResultAddr struct {
	Addr netip.Prefix
	// Gateway is the zero value without one.
	Gateway netip.Addr
	// Interface is the index into Result.Interfaces, -1 if the plugin does not report it.
	Interface int
}

// ResultRoute is a route of the pod. Its numbers are 0 if the plugin does not report them.
type ResultRoute struct {
	Dst                                 netip.Prefix
	Gateway                             netip.Addr
	MTU, AdvMSS, Priority, Table, Scope int
}

// ResultDNS is the resolver configuration of a network.
type ResultDNS struct {
	Nameservers []string
	Domain      string
	Search      []string
	Options     []string
}

// InPod returns the interface of that name in the pod, and whether the result has it.
func (r *Result) InPod(ifName string) (ResultInterface, bool) {
	i := slices.IndexFunc(r.Interfaces, func(i ResultInterface) bool { return i.Sandbox != "" && i.Name == ifName })
	if i < 0 {
		return ResultInterface{}, false
	}
	return r.Interfaces[i], true
}

// AddrsOf returns the addresses of an interface in the pod: the addresses that name the
// interface, and the addresses that name no interface, as in results before CNI 0.3.0.
func (r *Result) AddrsOf(ifName string) []ResultAddr {
	iface, _ := r.InPod(ifName)
	var list []ResultAddr
	for _, addr := range r.Addrs {
		if i := addr.Interface; i < 0 || i >= len(r.Interfaces) || r.Interfaces[i] == iface {
			list = append(list, addr)
		}
	}
	return list
}

// GatewayOf returns the gateway of a route: its own, or else the gateway of an address of its
// family (CNI 1.1, section "ADD success"). It is the zero value without both.
func (r *Result) GatewayOf(route ResultRoute) netip.Addr {
	if route.Gateway.IsValid() {
		return route.Gateway
	}
	for _, addr := range r.Addrs {
		if addr.Gateway.IsValid() && addr.Gateway.Is4() == route.Dst.Addr().Is4() {
			return addr.Gateway
		}
	}
	return netip.Addr{}
}

// Lacks reports whether a route of an interface remains to be made after the plugins: they
// have not made it, the interface has an address of its family, and the gateway is not the
// interface itself. The first is about the main table alone.
func (r *Result) Lacks(route netif.Route, ifName string) bool {
	if route.Table == 0 && r.HasRoute(route) {
		return false
	}
	family := false
	for _, own := range r.AddrsOf(ifName) {
		if own.Addr.Addr() == route.Gateway {
			return false
		}
		family = family || own.Addr.Addr().Is4() == route.Dst.Addr().Is4()
	}
	return family
}

// HasRoute reports whether the plugins have made that route.
func (r *Result) HasRoute(route netif.Route) bool {
	return slices.ContainsFunc(
		r.Routes,
		func(made ResultRoute) bool { return made.Dst == route.Dst && r.GatewayOf(made) == route.Gateway },
	)
}
