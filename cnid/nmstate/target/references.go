// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// resolved returns a document with values instead of references to them: the MAC address of
// another interface, and the table of a VRF. Interfaces and routes keep their places.
func (r *resolution) resolved(desired *document.State) *document.State {
	d := *desired
	d.Interfaces = slices.Clone(desired.Interfaces)
	for n, i := range d.Interfaces {
		if i.CopyMACFrom != "" && i.State != document.Ignore {
			d.Interfaces[n] = r.withMAC(fmt.Sprintf("interfaces[%d].copy-mac-from", n), i)
		}
	}
	if desired.Routes == nil {
		return &d
	}
	d.Routes = &document.Routes{Running: desired.Routes.Running, Config: slices.Clone(desired.Routes.Config)}
	for n, route := range d.Routes.Config {
		if route.VRF != "" && route.State != document.Ignore {
			d.Routes.Config[n] = r.inTable(routePath(n), route, d.Interfaces)
		}
	}
	return &d
}

// withMAC returns an interface with the MAC address of another one: that of its hardware if it
// has one, which stays as it is in a bond.
func (r *resolution) withMAC(path string, i document.Interface) document.Interface {
	from := r.current[i.CopyMACFrom]
	mac := cmp.Or(from.PermanentMACAddress, from.MACAddress)
	switch {
	case mac == "":
		r.add(path, "%s: no such interface, or none with a MAC address", i.CopyMACFrom)
	case i.MACAddress != "" && canonicalMAC(i.MACAddress) != canonicalMAC(mac):
		r.add(path, "%s: its MAC address is %s: remove one of mac-address and copy-mac-from", i.CopyMACFrom, mac)
	}
	i.MACAddress, i.CopyMACFrom = mac, ""
	return i
}

// inTable returns a route with the table of the VRF that it names.
func (r *resolution) inTable(path string, route document.Route, desired []document.Interface) document.Route {
	name := route.VRF
	route.VRF = ""
	vrf := r.current[name].VRF
	for _, i := range desired {
		switch {
		case i.Name != name:
		case i.State == document.Absent || i.State == document.Down:
			vrf = nil
		case i.VRF != nil && i.VRF.Table != nil:
			vrf = i.VRF
		}
	}
	switch {
	case vrf == nil || vrf.Table == nil:
		r.add(path+".vrf-name", "%s: no such VRF", name)
	case route.Table != nil && *route.Table != 0 && *route.Table != *vrf.Table:
		r.add(path+".table-id", "%d: the table of %s is %d: remove one of table-id and vrf-name", *route.Table, name, *vrf.Table)
	default:
		route.Table = vrf.Table
	}
	return route
}
