// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// multicastNumber is a number of a bridge, in a document and in the kernel.
type multicastNumber struct {
	field **int
	kind  uint16
	// wide: it has 8 bytes, and 4 otherwise.
	wide bool
}

func multicastNumbers(o *document.BridgeOptions) []multicastNumber {
	return []multicastNumber{
		{&o.HashMax, nl.IFLA_BR_MCAST_HASH_MAX, false},
		{&o.MulticastLastMemberCount, nl.IFLA_BR_MCAST_LAST_MEMBER_CNT, false},
		{&o.MulticastStartupQueryCount, nl.IFLA_BR_MCAST_STARTUP_QUERY_CNT, false},
		{&o.MulticastLastMemberInterval, nl.IFLA_BR_MCAST_LAST_MEMBER_INTVL, true},
		{&o.MulticastMembershipInterval, nl.IFLA_BR_MCAST_MEMBERSHIP_INTVL, true},
		{&o.MulticastQuerierInterval, nl.IFLA_BR_MCAST_QUERIER_INTVL, true},
		{&o.MulticastQueryInterval, nl.IFLA_BR_MCAST_QUERY_INTVL, true},
		{&o.MulticastQueryResponseInterval, nl.IFLA_BR_MCAST_QUERY_RESPONSE_INTVL, true},
		{&o.MulticastStartupQueryInterval, nl.IFLA_BR_MCAST_STARTUP_QUERY_INTVL, true},
	}
}

// showMulticast shows how a bridge handles multicast frames, and the group of its own protocol.
func showMulticast(o *document.BridgeOptions, data attributes) {
	for _, n := range multicastNumbers(o) {
		if n.wide {
			*n.field = data.Wide(n.kind)
		} else {
			*n.field = data.Integer(n.kind)
		}
	}
	o.MulticastQuerier = data.Truth(nl.IFLA_BR_MCAST_QUERIER)
	o.MulticastQueryUseIfaddr = data.Truth(nl.IFLA_BR_MCAST_QUERY_USE_IFADDR)
	if n, ok := data.Number(nl.IFLA_BR_MCAST_ROUTER); ok && int(n) < len(document.MulticastRouters) {
		o.MulticastRouter = document.MulticastRouters[n]
	}
	o.GroupAddress = strings.ToUpper(net.HardwareAddr(data.Get(nl.IFLA_BR_GROUP_ADDR)).String())
}

// multicast is the inverse of showMulticast.
func (s *settings) multicast(o document.BridgeOptions) error {
	for _, n := range multicastNumbers(&o) {
		switch {
		case *n.field == nil:
		case n.wide:
			s.add(nl.NewRtAttr(int(n.kind), nl.Uint64Attr(uint64(**n.field))))
		default:
			s.integer(n.kind, 4, *n.field)
		}
	}
	s.truth(nl.IFLA_BR_MCAST_QUERIER, o.MulticastQuerier)
	s.truth(nl.IFLA_BR_MCAST_QUERY_USE_IFADDR, o.MulticastQueryUseIfaddr)
	if o.MulticastRouter != "" {
		router := slices.Index(document.MulticastRouters, o.MulticastRouter)
		if router < 0 {
			return fmt.Errorf("multicast-router: %s: want one of %s", o.MulticastRouter, strings.Join(document.MulticastRouters, ", "))
		}
		s.add(sized(nl.IFLA_BR_MCAST_ROUTER, 1, uint32(router)))
	}
	if o.GroupAddress != "" {
		group, err := net.ParseMAC(o.GroupAddress)
		if err != nil {
			return fmt.Errorf("group-addr: %w", err)
		}
		s.add(nl.NewRtAttr(nl.IFLA_BR_GROUP_ADDR, group))
	}
	return nil
}
