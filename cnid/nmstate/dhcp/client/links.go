// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// link has what a client needs of its interface.
type link struct {
	index    int
	name     string
	hardware net.HardwareAddr
	// ready links are up and have a carrier.
	ready bool
}

func (l link) same(other link) bool {
	return l.index == other.index && l.name == other.name && l.ready == other.ready &&
		bytes.Equal(l.hardware, other.hardware)
}

// advice has what routers of a link tell about DHCPv6 (RFC 4861, section 4.2).
type advice struct{ managed, other bool }

// Flags of IFLA_INET6_FLAGS (include/net/if_inet6.h).
const (
	flagOther   = 0x80
	flagManaged = 0x40
	// inet6Flags is IFLA_INET6_FLAGS.
	inet6Flags = 1
)

// notice is one fact in a message of the kernel. All other messages give no notice.
type notice struct {
	// changed is a link that is there, gone the index of one that is not.
	changed *link
	gone    int
	// advised is the index of a link whose routers tell advice.
	advised int
	advice  advice
	// duplicate is an address that somebody else has, on the link of index.
	duplicate netip.Addr
	index     int
	// options are the options of an advertisement on that link that the kernel leaves to
	// programs.
	options []byte
}

// read returns the fact in a message.
func read(m syscall.NetlinkMessage) (notice, bool) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return readLink(m)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return readAddress(m.Data)
	case unix.RTM_NEWNDUSEROPT:
		return readOptions(m.Data)
	}
	return notice{}, false
}

// readOptions reads a struct nduseroptmsg (include/uapi/linux/rtnetlink.h).
func readOptions(data []byte) (notice, bool) {
	const size, length, index, kind, advertisement = 16, 2, 4, 8, 134
	if len(data) < size || data[0] != unix.AF_INET6 || data[kind] != advertisement {
		return notice{}, false
	}
	options := data[size:]
	options = options[:min(int(binary.NativeEndian.Uint16(data[length:])), len(options))]
	return notice{options: bytes.Clone(options), index: int(int32(binary.NativeEndian.Uint32(data[index:])))}, true
}

func readLink(m syscall.NetlinkMessage) (notice, bool) {
	if len(m.Data) < unix.SizeofIfInfomsg {
		return notice{}, false
	}
	index := int(int32(binary.NativeEndian.Uint32(m.Data[4:]))) // ifi_index
	attributes := attribute.List(m.Data[unix.SizeofIfInfomsg:])
	switch family := m.Data[0]; {
	case family == unix.AF_INET6 && m.Header.Type == unix.RTM_NEWLINK:
		flags, ok := attributes.Get(unix.IFLA_PROTINFO).Number(inet6Flags)
		return notice{advised: index, advice: advice{flags&flagManaged != 0, flags&flagOther != 0}}, ok
	case family != unix.AF_UNSPEC:
		// A bridge that loses a port says so by a deleted link of its own family.
		return notice{}, false
	case m.Header.Type == unix.RTM_DELLINK:
		return notice{gone: index}, true
	}
	const ready = unix.IFF_UP | unix.IFF_RUNNING
	flags := binary.NativeEndian.Uint32(m.Data[8:]) // ifi_flags
	return notice{changed: &link{
		index: index, name: string(bytes.TrimRight(attributes.Get(unix.IFLA_IFNAME), "\x00")),
		hardware: net.HardwareAddr(bytes.Clone(attributes.Get(unix.IFLA_ADDRESS))), ready: flags&ready == ready,
	}}, true
}

// readAddress returns an address that the kernel has found on another host too. The kernel
// deletes such addresses if they have a lifetime.
func readAddress(data []byte) (notice, bool) {
	if len(data) < unix.SizeofIfAddrmsg || data[0] != unix.AF_INET6 || data[2]&unix.IFA_F_DADFAILED == 0 { // ifa_flags
		return notice{}, false
	}
	address, ok := netip.AddrFromSlice(attribute.List(data[unix.SizeofIfAddrmsg:]).Get(unix.IFA_ADDRESS))
	return notice{duplicate: address, index: int(binary.NativeEndian.Uint32(data[4:]))}, ok // ifa_index
}

// listLinks returns what the kernel tells about all links.
func listLinks() ([]notice, error) {
	var notices []notice
	for _, family := range []int{unix.AF_UNSPEC, unix.AF_INET6} {
		raw, err := rtnl.Complete(func() ([][]byte, error) {
			request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
			request.AddData(nl.NewIfInfomsg(family))
			return request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		})
		if err != nil {
			return nil, fmt.Errorf("list the links: %w", err)
		}
		for _, data := range raw {
			m := syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWLINK}, Data: data}
			if n, ok := read(m); ok {
				notices = append(notices, n)
			}
		}
	}
	return notices, nil
}

// subscribe returns a socket on which the kernel tells what changes.
func subscribe() (*nl.NetlinkSocket, error) {
	socket, err := nl.Subscribe(
		unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK,
		unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV6_IFINFO,
		unix.RTNLGRP_ND_USEROPT,
	)
	if err != nil {
		return nil, fmt.Errorf("follow the links: %w", err)
	}
	return socket, nil
}
