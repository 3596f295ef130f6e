// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"log/slog"
	"syscall"

	"golang.org/x/sys/unix"
)

// NetworkWatch listens to changes of all devices, addresses, routes and rules of the node.
type NetworkWatch struct {
	// Changed is called after changes, at most once a second. It does not block.
	Changed func()
	Log     *slog.Logger
}

// networkGroups are the notifications about the network of a node.
var networkGroups = []uint32{
	unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE,
	unix.RTNLGRP_IPV6_ROUTE,
	unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE,
}

// Run watches the network namespace of the calling thread until ctx ends.
func (w NetworkWatch) Run(ctx context.Context) {
	hints := make(chan struct{}, 1)
	go pass(ctx, hints, w.Changed)
	listen(ctx, unix.NETLINK_ROUTE, networkGroups, hints, func() {}, func(messages []syscall.NetlinkMessage, _ bool) bool {
		return len(messages) > 0
	}, w.Log)
}
