// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// Link is a device as the kernel describes it.
type Link struct {
	Index    uint32
	hardware uint16 // ARPHRD_*
	flags    uint32 // IFF_*
	Name     string
	// Controller is the index of what the device is a port of, 0 for none.
	Controller uint32
	attributes
	// Driver is the kind of a virtual device, "" of others, and Data what only that has.
	Driver string
	Data   attributes
	// portData holds the attributes that the controller's driver keeps for a port.
	portData attributes
}

// ReadLink reads a message of a device, and returns false for other messages.
func ReadLink(message []byte) (l Link, ok bool) {
	if len(message) < unix.SizeofIfInfomsg {
		return l, false
	}
	header := nl.DeserializeIfInfomsg(message)
	l = Link{
		Index:      uint32(header.Index),
		hardware:   header.Type,
		flags:      header.Flags,
		attributes: message[unix.SizeofIfInfomsg:],
	}
	l.Name, l.Controller = l.Text(unix.IFLA_IFNAME), l.Value(unix.IFLA_MASTER)
	info := l.Get(unix.IFLA_LINKINFO)
	l.Driver, l.Data, l.portData = info.Text(
		nl.IFLA_INFO_KIND,
	), info.Get(
		nl.IFLA_INFO_DATA,
	), info.Get(
		nl.IFLA_INFO_SLAVE_DATA,
	)
	return l, true
}

// Up reports whether a device is up.
func (l Link) Up() bool { return l.flags&unix.IFF_UP != 0 }

// elsewhere reports whether the device that this one is on, or its other end, is in another
// network namespace.
func (l Link) elsewhere() bool { return l.Get(unix.IFLA_LINK_NETNSID) != nil }

// kind is the type of a device in documents.
func (l Link) kind() string {
	switch {
	case l.Driver != "":
		if k, ok := KindByDriver(l.Driver); ok {
			return k.name
		}
	case l.hardware == unix.ARPHRD_ETHER:
		return document.Ethernet
	case l.hardware == unix.ARPHRD_LOOPBACK:
		return document.Loopback
	}
	return document.Unknown
}

// mac returns an attribute with an Ethernet address in upper-case hex, "" without the attribute.
func (l Link) mac(kind uint16) string {
	const octets = 6
	address := l.Get(kind)
	if len(address) != octets {
		return ""
	}
	return strings.ToUpper(strings.ReplaceAll(fmt.Sprintf("% x", []byte(address)), " ", ":"))
}

// Header begins a request about a device.
func (l Link) Header() *nl.IfInfomsg {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = int32(l.Index)
	return header
}

// AltNames returns the alternative names of a device, sorted.
func (l Link) AltNames() (list []document.AltName) {
	for kind, name := range l.Get(unix.IFLA_PROP_LIST).All() {
		if kind == unix.IFLA_ALT_IFNAME {
			list = append(list, document.AltName{Name: unix.ByteSliceToString(name)})
		}
	}
	slices.SortFunc(list, func(a, b document.AltName) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
