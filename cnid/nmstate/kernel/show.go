// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// view is what several dumps say of all devices.
type view struct {
	links     []link
	names     map[uint32]string
	addresses map[uint32]addresses
	// vlans are those of ports of bridges, nil if no bridge filters.
	vlans map[uint32]vids
}

// Show returns what is: interfaces by name, routes and rules in an order of their own. A
// device that goes meanwhile may be missing.
func (k *Kernel) Show(ctx context.Context) (*document.State, error) {
	v, err := k.view(ctx)
	if err != nil {
		return nil, err
	}
	routes, err := k.routes(ctx, v.names)
	if err != nil {
		return nil, err
	}
	rules, err := k.rules(ctx)
	if err != nil {
		return nil, err
	}
	state := &document.State{Routes: routes, RouteRules: &document.RouteRules{Config: rules}}
	state.Interfaces = make([]document.Interface, len(v.links))
	for n, l := range v.links {
		state.Interfaces[n] = v.show(l)
	}
	return state, nil
}

// view asks for devices and all that interfaces have.
func (k *Kernel) view(ctx context.Context) (v view, err error) {
	if v.links, err = k.links(ctx); err != nil {
		return v, err
	}
	slices.SortFunc(v.links, func(a, b link) int { return cmp.Compare(a.name, b.name) })
	v.names = make(map[uint32]string, len(v.links))
	for _, l := range v.links {
		v.names[l.index] = l.name
	}
	if v.addresses, err = k.addresses(ctx, v.links); err != nil {
		return v, err
	}
	if slices.ContainsFunc(v.links, filters) {
		v.vlans, err = k.vlans(ctx)
	}
	return v, err
}

// show returns a device as an interface of a document.
func (v view) show(l link) document.Interface {
	i := document.Interface{
		Name: l.name, Type: l.kind(), State: document.Down,
		Description:           new(l.Text(unix.IFLA_IFALIAS)),
		AltNames:              l.altNames(),
		MACAddress:            l.mac(unix.IFLA_ADDRESS),
		PermanentMACAddress:   l.mac(unix.IFLA_PERM_ADDRESS),
		MTU:                   l.Integer(unix.IFLA_MTU),
		MinMTU:                l.Integer(unix.IFLA_MIN_MTU),
		MaxMTU:                l.Integer(unix.IFLA_MAX_MTU),
		Controller:            new(v.names[l.controller]),
		AcceptAllMACAddresses: new(l.flags&unix.IFF_PROMISC != 0),
	}
	if l.up() {
		i.State = document.Up
	}
	i.IPv4, i.IPv6 = v.addresses[l.index].families(l)
	if k, ok := kindByDriver(l.driver); ok {
		k.show(v, l, &i)
	} else if i.Type == document.Ethernet {
		i.Ethernet = showEthernet(l)
	}
	return i
}

// base is the name of the device that one is derived from, "" if that is elsewhere.
func (v view) base(l link) string {
	if l.elsewhere() {
		return ""
	}
	return v.names[l.Value(unix.IFLA_LINK)]
}

// ports are the devices of a controller, by name.
func (v view) ports(controller link) []link {
	var ports []link
	for _, l := range v.links {
		if l.controller == controller.index {
			ports = append(ports, l)
		}
	}
	return ports
}

// portNames are the names of the devices of a controller.
func (v view) portNames(controller link) []string {
	names := []string{}
	for _, port := range v.ports(controller) {
		names = append(names, port.name)
	}
	return names
}
