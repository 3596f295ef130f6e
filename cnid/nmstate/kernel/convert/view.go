// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// View has what several dumps say of all devices.
type View struct {
	// Links are sorted by name, and Names are their names by index.
	Links     []Link
	Names     map[uint32]string
	Addresses map[uint32]Addresses
	// VLANs are the VLANs of ports of bridges, nil if no bridge filters.
	VLANs map[uint32]VIDs
}

// Show returns a device as an interface of a document. It leaves out what sysfs has of hardware.
func (v View) Show(l Link) document.Interface {
	i := document.Interface{
		Name: l.Name, Type: l.kind(), State: document.Down,
		Description:           new(l.Text(unix.IFLA_IFALIAS)),
		AltNames:              l.AltNames(),
		MACAddress:            l.mac(unix.IFLA_ADDRESS),
		PermanentMACAddress:   l.mac(unix.IFLA_PERM_ADDRESS),
		MTU:                   l.Integer(unix.IFLA_MTU),
		MinMTU:                l.Integer(unix.IFLA_MIN_MTU),
		MaxMTU:                l.Integer(unix.IFLA_MAX_MTU),
		Controller:            new(v.Names[l.Controller]),
		AcceptAllMACAddresses: new(l.flags&unix.IFF_PROMISC != 0),
	}
	if l.Up() {
		i.State = document.Up
	}
	i.IPv4, i.IPv6 = v.Addresses[l.Index].families(l)
	if k, ok := KindByDriver(l.Driver); ok {
		k.show(v, l, &i)
	}
	return i
}

// base is the name of the device that one is derived from, "" if that is elsewhere.
func (v View) base(l Link) string {
	if l.elsewhere() {
		return ""
	}
	return v.Names[l.Value(unix.IFLA_LINK)]
}

// ports are the devices of a controller, by name.
func (v View) ports(controller Link) []Link {
	var ports []Link
	for _, l := range v.Links {
		if l.Controller == controller.Index {
			ports = append(ports, l)
		}
	}
	return ports
}

// portNames are the names of the devices of a controller.
func (v View) portNames(controller Link) []string {
	names := []string{}
	for _, port := range v.ports(controller) {
		names = append(names, port.Name)
	}
	return names
}
