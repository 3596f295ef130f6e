// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/attribute"
)

// link is a device.
type link struct {
	message Message
	attribute.List
	index uint32
	flags uint32
	name  string
	// base is the device below, or the other end of a pair, and controller what the device
	// is a port of; 0 for none in this namespace.
	base, controller uint32
	// driver is "" for a device that is no virtual one. data and port are what the driver,
	// and that of the controller, have of it.
	driver     string
	data, port attribute.List
	portOf     string
}

func linkOf(m Message) link {
	if len(m) < unix.SizeofIfInfomsg {
		return link{}
	}
	l := link{
		message: m, List: attribute.List(m[unix.SizeofIfInfomsg:]),
		index: binary.NativeEndian.Uint32(m[4:]), flags: binary.NativeEndian.Uint32(m[8:]),
	}
	l.name, l.controller = l.Text(unix.IFLA_IFNAME), l.Value(unix.IFLA_MASTER)
	if l.Get(unix.IFLA_LINK_NETNSID) == nil {
		l.base = l.Value(unix.IFLA_LINK)
	}
	info := l.Get(unix.IFLA_LINKINFO)
	l.driver, l.data = info.Text(nl.IFLA_INFO_KIND), info.Get(nl.IFLA_INFO_DATA)
	if l.driver == "vxlan" {
		l.base = l.data.Value(vxlanBase)
	}
	l.portOf, l.port = info.Text(nl.IFLA_INFO_SLAVE_KIND), info.Get(nl.IFLA_INFO_SLAVE_DATA)
	return l
}

func linksOf(i *Image) (list []link, byIndex map[uint32]link) {
	byIndex = make(map[uint32]link, len(i.Links))
	for _, m := range i.Links {
		l := linkOf(m)
		list = append(list, l)
		byIndex[l.index] = l
	}
	return list, byIndex
}

// isPairWith reports whether two devices are the ends of one pair.
func (l link) isPairWith(other link) bool {
	return l.driver == "veth" && other.driver == "veth" && l.base == other.index && other.base == l.index
}

// isOneEnd reports whether the other end of a pair is in another namespace.
func (l link) isOneEnd() bool { return l.driver == "veth" && l.Get(unix.IFLA_LINK_NETNSID) != nil }

// deviceOf returns the device of an address or a neighbour.
func deviceOf(m Message) uint32 { return binary.NativeEndian.Uint32(m[4:]) }

func flagsOfAddress(m Message) uint32 {
	if len(m) < headerOfAddress {
		return 0
	}
	if flags, ok := addresses().attributes(m).Number(unix.IFA_FLAGS); ok {
		return flags
	}
	return uint32(m[2])
}

// outsOf returns the devices of the next hops of a route.
func outsOf(m Message) (list []uint32) {
	attributes := routes().attributes(m)
	if out := attributes.Value(unix.RTA_OIF); out != 0 {
		list = append(list, out)
	}
	for hop := range hopsOf(attributes.Get(unix.RTA_MULTIPATH)) {
		list = append(list, binary.NativeEndian.Uint32(hop[4:]))
	}
	return list
}
