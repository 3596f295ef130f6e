// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// socket is a netlink socket whose lists are complete. If the kernel's table changes during a
// dump, the list may lack an object or have it twice, and the kernel marks the dump as
// interrupted (NLM_F_DUMP_INTR, netlink(7)). The socket then repeats the dump.
type socket struct{ *netlink.Handle }

// openSocket opens a socket in the network namespace that it is called in.
func openSocket() (socket, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return socket{}, fmt.Errorf("open netlink socket: %w", err)
	}
	return socket{handle}, nil
}

// LinkList returns all devices.
func (s socket) LinkList() ([]netlink.Link, error) { return rtnl.Complete(s.Handle.LinkList) }

// QdiscList returns the qdiscs of a device, or of all devices if it is nil.
func (s socket) QdiscList(device netlink.Link) ([]netlink.Qdisc, error) {
	return rtnl.Complete(func() ([]netlink.Qdisc, error) { return s.Handle.QdiscList(device) })
}

// FilterList returns the filters of a device below a parent.
func (s socket) FilterList(device netlink.Link, parent uint32) ([]netlink.Filter, error) {
	return rtnl.Complete(func() ([]netlink.Filter, error) { return s.Handle.FilterList(device, parent) })
}
