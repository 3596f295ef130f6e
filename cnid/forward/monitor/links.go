// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// LinkWatch listens to changes of single devices, and of one table of nf_tables.
type LinkWatch struct {
	// Table is the name of the table.
	Table string
	Links
	Log *slog.Logger
}

// Links follows single devices.
type Links interface {
	// Concerned reports whether a change of the device of that index and name matters.
	Concerned(index int, name string) bool
	// Changed is called after changes that matter, at most once a second. It does not block.
	Changed()
}

// Run watches until ctx ends.
func (w LinkWatch) Run(ctx context.Context) {
	hints := make(chan struct{}, 1)
	groups := []uint32{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_NEIGH}
	go listen(ctx, unix.NETLINK_ROUTE, groups, hints, func() {}, func(messages []syscall.NetlinkMessage, _ bool) bool {
		return slices.ContainsFunc(messages, w.concerns)
	}, w.Log)
	go listen(
		ctx,
		unix.NETLINK_NETFILTER,
		[]uint32{unix.NFNLGRP_NFTABLES},
		hints,
		func() {},
		func(messages []syscall.NetlinkMessage, _ bool) bool {
			return slices.ContainsFunc(messages, func(m syscall.NetlinkMessage) bool { return filterConcerns(m, w.Table) })
		},
		w.Log,
	)
	pass(ctx, hints, w.Changed)
}

// concerns reports whether a message of rtnetlink is about a device that matters. Of
// forwarding entries only deleted ones matter: new ones are learned all the time.
func (w LinkWatch) concerns(m syscall.NetlinkMessage) bool {
	const indexEnd = 8 // ifi_index, ifa_index and ndm_ifindex have the same place
	if len(m.Data) < indexEnd {
		return false
	}
	index := int(binary.NativeEndian.Uint32(m.Data[4:]))
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		name := bytes.TrimRight(attribute(m.Data, unix.SizeofIfInfomsg, unix.IFLA_IFNAME), "\x00")
		return w.Concerned(index, string(name))
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return w.Concerned(index, "")
	case unix.RTM_DELNEIGH:
		const bridge = unix.AF_BRIDGE
		mac := attribute(m.Data, unix.SizeofNdMsg, unix.NDA_LLADDR)
		return m.Data[0] == bridge && bytes.Equal(mac, make([]byte, 6)) && w.Concerned(index, "")
	}
	return false
}
