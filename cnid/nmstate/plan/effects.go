// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// lost notes that an interface is gone, with what the kernel removes with it.
func (p *planner) lost(name string) {
	i, ok := p.now[name]
	if !ok {
		return
	}
	delete(p.now, name)
	p.dirty[name] = true
	p.loseRoutes(name, both)
	for _, above := range p.derived[name] {
		if p.now[above] != nil && p.now[above].Base() == name {
			p.lost(above)
		}
	}
	if i.Veth != nil {
		p.lost(i.Veth.Peer)
	}
	if i.Type == document.Bond || i.Type == document.LinuxBridge || i.Type == document.VRFType {
		for _, port := range p.now {
			if controller(port) == name {
				p.detached(port, i.Type)
			}
		}
	}
}

// Families of routes and addresses.
type families int

const (
	four families = 1 << iota
	six
	both = four | six
)

func familyOf(destination string) families {
	if prefix, err := netip.ParsePrefix(destination); err == nil && prefix.Addr().Is6() {
		return six
	}
	return four
}

// loseRoutes notes that the routes of an interface are gone.
func (p *planner) loseRoutes(name string, which families) {
	maps.DeleteFunc(p.routes, func(_ string, route document.Route) bool {
		return route.Interface == name && familyOf(route.Destination)&which != 0
	})
}

// loseSource notes that routes with a source address are gone.
func (p *planner) loseSource(address string) {
	maps.DeleteFunc(p.routes, func(_ string, route document.Route) bool { return route.Source == address })
}

// loseIPv6 notes that the addresses of IPv6 are gone, and their routes.
func (p *planner) loseIPv6(i *document.Interface) {
	p.dirty[i.Name] = true
	for _, a := range addresses(i.IPv6) {
		p.loseSource(a.IP)
	}
	ip := document.IP{}
	if i.IPv6 != nil {
		ip = *i.IPv6
	}
	ip.Addresses, i.IPv6 = nil, &ip
	p.loseRoutes(i.Name, six)
}

// detached notes that an interface stopped being a port. A bond takes its ports down, and gives
// them back their MAC address and MTU.
func (p *planner) detached(i *document.Interface, kind string) {
	p.dirty[i.Name] = true
	i.Controller = new("")
	switch kind {
	case document.Bond:
		p.stopped(i)
		i.MACAddress = ""
		p.forgetMTU(i)
	case document.VRFType:
		p.loseIPv6(i)
		p.loseRoutes(i.Name, both)
	}
}

// forgetMTU notes that the MTU of an interface is unknown now, like the MTUs of interfaces above
// it.
func (p *planner) forgetMTU(i *document.Interface) {
	i.MTU, p.dirty[i.Name] = nil, true
	for _, name := range p.derived[i.Name] {
		if above := p.now[name]; above != nil && above.Base() == i.Name && above.VXLAN == nil {
			p.forgetMTU(above)
		}
	}
}

// attached notes that an interface is a port. A bridge and a bond without MAC address and
// MTU of their own take them from their ports.
func (p *planner) attached(i, to *document.Interface) {
	p.dirty[i.Name], p.dirty[to.Name] = true, true
	first := !slices.ContainsFunc(p.list(), func(other *document.Interface) bool { return controller(other) == to.Name })
	i.Controller, p.enslaved[i.Name] = new(to.Name), true
	switch to.Type {
	case document.Bond:
		p.stopped(i)
		p.started(i)
		i.MTU = to.MTU
		if first {
			to.MACAddress = ""
		}
	case document.VRFType:
		p.loseIPv6(i)
		p.loseRoutes(i.Name, both)
	default:
		to.MACAddress, to.MTU = "", nil
	}
}

func (p *planner) list() []*document.Interface {
	return slices.Collect(maps.Values(p.now))
}

// stopped notes that an interface is down. Its VLANs are too.
func (p *planner) stopped(i *document.Interface) {
	p.dirty[i.Name] = true
	i.State = document.Down
	p.loseIPv6(i)
	p.loseRoutes(i.Name, both)
	for _, name := range p.derived[i.Name] {
		above := p.now[name]
		if above != nil && above.VLAN != nil && above.Base() == i.Name && above.State != document.Down {
			p.stopped(above)
		}
	}
}

// started notes that an interface is up. Its VLANs are too.
func (p *planner) started(i *document.Interface) {
	p.dirty[i.Name] = true
	i.State = document.Up
	for _, name := range p.derived[i.Name] {
		above := p.now[name]
		if above != nil && above.VLAN != nil && above.Base() == i.Name && above.State == document.Down {
			p.started(above)
		}
	}
}

// resized notes an MTU. The kernel lowers a larger MTU of interfaces above. An interface of type
// ipvlan always has the MTU of its base, and ports have the MTU of their bond.
func (p *planner) resized(i *document.Interface, mtu int) {
	i.MTU = new(mtu)
	for _, name := range p.derived[i.Name] {
		above := p.now[name]
		if above == nil || above.Base() != i.Name || above.VXLAN != nil {
			continue
		}
		if above.IPVLAN != nil || above.MTU != nil && *above.MTU > mtu {
			p.dirty[name] = true
			p.resized(above, mtu)
		}
	}
	if i.Type != document.Bond {
		return
	}
	for _, port := range p.now {
		if controller(port) == i.Name {
			p.dirty[port.Name] = true
			p.resized(port, mtu)
		}
	}
}

func addresses(ip *document.IP) []document.Address {
	if ip == nil {
		return nil
	}
	return ip.Addresses
}
