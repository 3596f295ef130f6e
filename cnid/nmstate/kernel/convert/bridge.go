// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// ticks is the number of clock ticks per second in the times of bridges (USER_HZ).
const ticks = 100

// Filters reports whether a device is a bridge that knows VLANs.
func Filters(l Link) bool {
	return l.Driver == "bridge" && l.Data.Value(nl.IFLA_BR_VLAN_FILTERING) != 0
}

func showBridge(v View, l Link, i *document.Interface) {
	seconds := func(kind uint16) *int {
		if n, ok := l.Data.Number(kind); ok {
			return new(int(n / ticks))
		}
		return nil
	}
	i.Bridge = &document.Bridge{
		Ports: []document.BridgePort{},
		Options: &document.BridgeOptions{
			STP: &document.STP{
				Enabled: l.Data.Truth(
					nl.IFLA_BR_STP_STATE,
				), ForwardDelay: seconds(nl.IFLA_BR_FORWARD_DELAY), HelloTime: seconds(nl.IFLA_BR_HELLO_TIME),
				MaxAge: seconds(nl.IFLA_BR_MAX_AGE), Priority: l.Data.Integer(nl.IFLA_BR_PRIORITY),
			},
			MACAgeingTime:     seconds(nl.IFLA_BR_AGEING_TIME),
			GroupForwardMask:  l.Data.Integer(nl.IFLA_BR_GROUP_FWD_MASK),
			MulticastSnooping: l.Data.Truth(nl.IFLA_BR_MCAST_SNOOPING),
			VLANProtocol:      protocolName(l.Data.Big(nl.IFLA_BR_VLAN_PROTOCOL)),
			VLANDefaultPVID:   l.Data.Integer(nl.IFLA_BR_VLAN_DEFAULT_PVID),
		},
	}
	showMulticast(i.Bridge.Options, l.Data)
	for _, port := range v.ports(l) {
		i.Bridge.Ports = append(i.Bridge.Ports, v.showPort(l, port))
	}
}

func (v View) showPort(bridge, port Link) document.BridgePort {
	shown := document.BridgePort{
		Name: port.Name, Hairpin: port.portData.Truth(nl.IFLA_BRPORT_MODE),
		PathCost: port.portData.Integer(nl.IFLA_BRPORT_COST), Priority: port.portData.Integer(nl.IFLA_BRPORT_PRIORITY),
	}
	if Filters(bridge) {
		shown.VLAN = v.VLANs[port.Index].show()
	}
	return shown
}

func bridgeData(r Request) ([]*nl.RtAttr, error) {
	if r.Want.Bridge == nil {
		return nil, nil
	}
	var s Settings
	seconds := func(kind uint16, value *int) {
		if value != nil {
			s.Add(Sized(kind, 4, uint32(*value*ticks)))
		}
	}
	if o := r.Want.Bridge.Options; o != nil {
		if o.STP != nil {
			seconds(nl.IFLA_BR_FORWARD_DELAY, o.STP.ForwardDelay)
			seconds(nl.IFLA_BR_HELLO_TIME, o.STP.HelloTime)
			seconds(nl.IFLA_BR_MAX_AGE, o.STP.MaxAge)
			s.Integer(nl.IFLA_BR_PRIORITY, 2, o.STP.Priority)
			if o.STP.Enabled != nil {
				s.Add(Sized(nl.IFLA_BR_STP_STATE, 4, Bit(*o.STP.Enabled)))
			}
		}
		seconds(nl.IFLA_BR_AGEING_TIME, o.MACAgeingTime)
		s.Integer(nl.IFLA_BR_GROUP_FWD_MASK, 2, o.GroupForwardMask)
		s.Truth(nl.IFLA_BR_MCAST_SNOOPING, o.MulticastSnooping)
		if err := s.multicast(*o); err != nil {
			return nil, err
		}
		s.protocol(nl.IFLA_BR_VLAN_PROTOCOL, o.VLANProtocol)
		s.Integer(nl.IFLA_BR_VLAN_DEFAULT_PVID, 2, o.VLANDefaultPVID)
	}
	for _, port := range r.Want.Bridge.Ports {
		if port.VLAN != nil && port.VLAN.Mode != "" {
			s.Add(Sized(nl.IFLA_BR_VLAN_FILTERING, 1, 1))
			break
		}
	}
	return s, nil
}

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
func (s *Settings) multicast(o document.BridgeOptions) error {
	for _, n := range multicastNumbers(&o) {
		switch {
		case *n.field == nil:
		case n.wide:
			s.Add(nl.NewRtAttr(int(n.kind), nl.Uint64Attr(uint64(**n.field))))
		default:
			s.Integer(n.kind, 4, *n.field)
		}
	}
	s.Truth(nl.IFLA_BR_MCAST_QUERIER, o.MulticastQuerier)
	s.Truth(nl.IFLA_BR_MCAST_QUERY_USE_IFADDR, o.MulticastQueryUseIfaddr)
	if o.MulticastRouter != "" {
		router := slices.Index(document.MulticastRouters, o.MulticastRouter)
		if router < 0 {
			return fmt.Errorf(
				"multicast-router: %s: want one of %s",
				o.MulticastRouter,
				strings.Join(document.MulticastRouters, ", "),
			)
		}
		s.Add(Sized(nl.IFLA_BR_MCAST_ROUTER, 1, uint32(router)))
	}
	if o.GroupAddress != "" {
		group, err := net.ParseMAC(o.GroupAddress)
		if err != nil {
			return fmt.Errorf("group-addr: %w", err)
		}
		s.Add(nl.NewRtAttr(nl.IFLA_BR_GROUP_ADDR, group))
	}
	return nil
}
