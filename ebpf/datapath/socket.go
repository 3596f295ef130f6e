// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// dumpAttempts limits how often the socket asks for one list.
const dumpAttempts = 10

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
func (s socket) LinkList() ([]netlink.Link, error) { return complete(s.Handle.LinkList) }

// QdiscList returns the qdiscs of a device, or of all devices if it is nil.
func (s socket) QdiscList(device netlink.Link) ([]netlink.Qdisc, error) {
	return complete(func() ([]netlink.Qdisc, error) { return s.Handle.QdiscList(device) })
}

// FilterList returns the filters of a device below a parent.
func (s socket) FilterList(device netlink.Link, parent uint32) ([]netlink.Filter, error) {
	return complete(func() ([]netlink.Filter, error) { return s.Handle.FilterList(device, parent) })
}

// complete repeats a dump that a change of the table or a signal has interrupted. After
// dumpAttempts dumps it returns the last list with its error.
func complete[T any](dump func() ([]T, error)) (list []T, err error) {
	for range dumpAttempts {
		list, err = dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return list, err
}
