// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
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

// token is IFLA_INET6_TOKEN of include/uapi/linux/if_link.h.
const token = 7

// names gives a device the alternative names back that it lacks, and takes those that the change
// added. A name may have been that of another device: a next look finds it free.
func (p *planner) names(was, is link) {
	had, has := was.alternatives(), is.alternatives()
	lost := slices.DeleteFunc(slices.Clone(had), func(name string) bool { return slices.Contains(has, name) })
	added := slices.DeleteFunc(slices.Clone(has), func(name string) bool {
		return slices.Contains(had, name) || !slices.Contains(p.area.AltNames[was.name], name)
	})
	change := func(list []string, kind, flags int) {
		if len(list) > 0 {
			p.request(Request{What: "alternative names of " + was.name, Kind: kind, Flags: flags, Body: about(is.index).add(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, altNames(list)).body})
		}
	}
	change(added, unix.RTM_DELLINKPROP, 0)
	change(lost, unix.RTM_NEWLINKPROP, exclusive|unix.NLM_F_APPEND)
}

// alternatives are the alternative names of a device.
func (l link) alternatives() (list []string) {
	for kind, name := range l.Get(unix.IFLA_PROP_LIST).All() {
		if kind == unix.IFLA_ALT_IFNAME {
			list = append(list, unix.ByteSliceToString(name))
		}
	}
	return list
}

func altNames(list []string) (content []byte) {
	for _, name := range list {
		content = appendAttribute(content, unix.IFLA_ALT_IFNAME, append([]byte(name), 0))
	}
	return content
}

// token restores the part of addresses that an administrator chose for the router's prefixes.
func (p *planner) token(was, is link) {
	want := tokenOf(was)
	if want == nil || bytes.Equal(want, tokenOf(is)) {
		return
	}
	settings := appendAttribute(nil, unix.AF_INET6|unix.NLA_F_NESTED, appendAttribute(nil, token, want))
	p.link(is, "token of "+was.name, func(b *builder) { b.add(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, settings) })
}

func tokenOf(l link) attribute.List { return l.Get(unix.IFLA_AF_SPEC).Get(unix.AF_INET6).Get(token) }
