// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
)

// Link is a device.
type Link struct {
	attribute.List
	Index uint32
	Flags uint32 // IFF_*
	Name  string
	// Base is the device below, or the other end of a pair, and Controller what the device
	// is a port of; 0 for none in this namespace.
	Base, Controller uint32
	// Driver is "" for a device that is not virtual. Data has the attributes of the driver, and Port the
	// attributes of the controller's driver.
	Driver     string
	Data, Port attribute.List
	PortOf     string
}

// LinkOf reads the message of a device, and returns the zero Link for one without a header.
func LinkOf(m Message) Link {
	if len(m) < unix.SizeofIfInfomsg {
		return Link{}
	}
	l := Link{
		List:  attribute.List(m[unix.SizeofIfInfomsg:]),
		Index: binary.NativeEndian.Uint32(m[4:]), Flags: binary.NativeEndian.Uint32(m[8:]),
	}
	l.Name, l.Controller = l.Text(unix.IFLA_IFNAME), l.Value(unix.IFLA_MASTER)
	if l.Get(unix.IFLA_LINK_NETNSID) == nil {
		l.Base = l.Value(unix.IFLA_LINK)
	}
	info := l.Get(unix.IFLA_LINKINFO)
	l.Driver, l.Data = info.Text(nl.IFLA_INFO_KIND), info.Get(nl.IFLA_INFO_DATA)
	if l.Driver == "vxlan" {
		l.Base = l.Data.Value(VXLANBase)
	}
	l.PortOf, l.Port = info.Text(nl.IFLA_INFO_SLAVE_KIND), info.Get(nl.IFLA_INFO_SLAVE_DATA)
	return l
}

// IsPairWith reports whether two devices are the ends of one pair.
func (l Link) IsPairWith(other Link) bool {
	return l.Driver == "veth" && other.Driver == "veth" && l.Base == other.Index && other.Base == l.Index
}

// IsOneEnd reports whether the other end of a pair is in another namespace.
func (l Link) IsOneEnd() bool { return l.Driver == "veth" && l.Get(unix.IFLA_LINK_NETNSID) != nil }

// DeviceOf returns the device of an address or a neighbour.
func DeviceOf(m Message) uint32 { return binary.NativeEndian.Uint32(m[4:]) }

// OutsOf returns the devices of the next hops of a route.
func OutsOf(m Message) (list []uint32) {
	attributes := Routes().Attributes(m)
	if out := attributes.Value(unix.RTA_OIF); out != 0 {
		list = append(list, out)
	}
	for hop := range HopsOf(attributes.Get(unix.RTA_MULTIPATH)) {
		list = append(list, binary.NativeEndian.Uint32(hop[4:]))
	}
	return list
}

// AttrToken is IFLA_INET6_TOKEN of include/uapi/linux/if_link.h.
const AttrToken = 7

// Alternatives are the alternative names of a device.
func (l Link) Alternatives() (list []string) {
	for kind, name := range l.Get(unix.IFLA_PROP_LIST).All() {
		if kind == unix.IFLA_ALT_IFNAME {
			list = append(list, unix.ByteSliceToString(name))
		}
	}
	return list
}

// AltNames returns the content of an attribute with alternative names.
func AltNames(list []string) (content []byte) {
	for _, name := range list {
		content = AppendAttribute(content, unix.IFLA_ALT_IFNAME, append([]byte(name), 0))
	}
	return content
}

// TokenOf returns the last bits of addresses of IPv6 that an administrator has chosen.
func TokenOf(l Link) attribute.List {
	return l.Get(unix.IFLA_AF_SPEC).Get(unix.AF_INET6).Get(AttrToken)
}

// IsZero reports whether an address is all zeros, which a bridge has after it lost its last port.
// The kernel refuses to set it.
func IsZero(address []byte) bool { return len(bytes.Trim(address, "\x00")) == 0 }

// LostItsPorts reports whether a device is a bridge with that address.
func (l Link) LostItsPorts() bool { return l.Driver == "bridge" && IsZero(l.Get(unix.IFLA_ADDRESS)) }

// Unkept returns what a device has beside its messages, "" for nothing.
func (l Link) Unkept() string {
	const attached, sources = 2, 6 // IFLA_XDP_ATTACHED, IFLA_MACVLAN_MACADDR_COUNT
	switch {
	case l.Get(unix.IFLA_XDP).Value(attached) != 0:
		return "a program of XDP"
	case l.Driver == "macvlan" && l.Data.Value(sources) != 0:
		return "a list of source addresses"
	case slices.Contains([]string{"macsec", "wireguard", "tun", "team", "hsr", "batadv"}, l.Driver):
		return "settings of " + l.Driver + " that another program made"
	}
	return ""
}
