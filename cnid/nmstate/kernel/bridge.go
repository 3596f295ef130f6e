// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// ticks are what the kernel counts in a second in times of bridges (USER_HZ).
const ticks = 100

// filters reports whether a device is a bridge that knows VLANs.
func filters(l link) bool {
	return l.driver == "bridge" && l.data.Value(nl.IFLA_BR_VLAN_FILTERING) != 0
}

func showBridge(v view, l link, i *document.Interface) {
	seconds := func(kind uint16) *int {
		if n, ok := l.data.Number(kind); ok {
			return new(int(n / ticks))
		}
		return nil
	}
	i.Bridge = &document.Bridge{
		Ports: []document.BridgePort{},
		Options: &document.BridgeOptions{
			STP: &document.STP{
				Enabled: l.data.Truth(nl.IFLA_BR_STP_STATE), ForwardDelay: seconds(nl.IFLA_BR_FORWARD_DELAY), HelloTime: seconds(nl.IFLA_BR_HELLO_TIME),
				MaxAge: seconds(nl.IFLA_BR_MAX_AGE), Priority: l.data.Integer(nl.IFLA_BR_PRIORITY),
			},
			MACAgeingTime:     seconds(nl.IFLA_BR_AGEING_TIME),
			GroupForwardMask:  l.data.Integer(nl.IFLA_BR_GROUP_FWD_MASK),
			MulticastSnooping: l.data.Truth(nl.IFLA_BR_MCAST_SNOOPING),
			VLANProtocol:      protocolName(l.data.Big(nl.IFLA_BR_VLAN_PROTOCOL)),
			VLANDefaultPVID:   l.data.Integer(nl.IFLA_BR_VLAN_DEFAULT_PVID),
		},
	}
	showMulticast(i.Bridge.Options, l.data)
	for _, port := range v.ports(l) {
		i.Bridge.Ports = append(i.Bridge.Ports, v.showPort(l, port))
	}
}

func (v view) showPort(bridge, port link) document.BridgePort {
	shown := document.BridgePort{
		Name: port.name, Hairpin: port.portData.Truth(nl.IFLA_BRPORT_MODE),
		PathCost: port.portData.Integer(nl.IFLA_BRPORT_COST), Priority: port.portData.Integer(nl.IFLA_BRPORT_PRIORITY),
	}
	if filters(bridge) {
		shown.VLAN = v.vlans[port.index].show()
	}
	return shown
}

func bridgeData(r request) ([]*nl.RtAttr, error) {
	if r.want.Bridge == nil {
		return nil, nil
	}
	var s settings
	seconds := func(kind uint16, value *int) {
		if value != nil {
			s.add(sized(kind, 4, uint32(*value*ticks)))
		}
	}
	if o := r.want.Bridge.Options; o != nil {
		if o.STP != nil {
			seconds(nl.IFLA_BR_FORWARD_DELAY, o.STP.ForwardDelay)
			seconds(nl.IFLA_BR_HELLO_TIME, o.STP.HelloTime)
			seconds(nl.IFLA_BR_MAX_AGE, o.STP.MaxAge)
			s.integer(nl.IFLA_BR_PRIORITY, 2, o.STP.Priority)
			if o.STP.Enabled != nil {
				s.add(sized(nl.IFLA_BR_STP_STATE, 4, bit(*o.STP.Enabled)))
			}
		}
		seconds(nl.IFLA_BR_AGEING_TIME, o.MACAgeingTime)
		s.integer(nl.IFLA_BR_GROUP_FWD_MASK, 2, o.GroupForwardMask)
		s.truth(nl.IFLA_BR_MCAST_SNOOPING, o.MulticastSnooping)
		if err := s.multicast(*o); err != nil {
			return nil, err
		}
		s.protocol(nl.IFLA_BR_VLAN_PROTOCOL, o.VLANProtocol)
		s.integer(nl.IFLA_BR_VLAN_DEFAULT_PVID, 2, o.VLANDefaultPVID)
	}
	for _, port := range r.want.Bridge.Ports {
		if port.VLAN != nil && port.VLAN.Mode != "" {
			s.add(sized(nl.IFLA_BR_VLAN_FILTERING, 1, 1))
			break
		}
	}
	return s, nil
}

// changePort applies settings of a port of a bridge.
func (k *Kernel) changePort(ctx context.Context, step plan.PortChange) error {
	bridge, err := k.link(ctx, step.Bridge)
	if err != nil {
		return err
	}
	port, err := k.link(ctx, step.Port.Name)
	if err != nil {
		return err
	}
	if port.controller != bridge.index || bridge.driver != "bridge" {
		return fmt.Errorf("%s is no port of the bridge %s: attach it first", step.Port.Name, step.Bridge)
	}
	var s settings
	s.truth(nl.IFLA_BRPORT_MODE, step.Port.Hairpin)
	s.integer(nl.IFLA_BRPORT_COST, 4, step.Port.PathCost)
	s.integer(nl.IFLA_BRPORT_PRIORITY, 2, step.Port.Priority)
	if len(s) > 0 {
		info := nested(unix.IFLA_LINKINFO, []*nl.RtAttr{zeroEnded(nl.IFLA_INFO_SLAVE_KIND, "bridge"), nested(nl.IFLA_INFO_SLAVE_DATA, s)})
		if err := k.modify(ctx, port, info); err != nil {
			return err
		}
	}
	if step.Port.VLAN == nil {
		return nil
	}
	return k.changeVLANs(ctx, bridge, port, *step.Port.VLAN)
}

// filter turns on the filter of VLANs of a bridge.
func (k *Kernel) filter(ctx context.Context, bridge link) error {
	if filters(bridge) {
		return nil
	}
	err := k.setFilter(ctx, bridge, 1)
	if errors.Is(err, unix.EOPNOTSUPP) || bridge.data.Get(nl.IFLA_BR_VLAN_FILTERING) == nil {
		return fmt.Errorf("bridge.port.vlan: this kernel has no bridges that filter VLANs (CONFIG_BRIDGE_VLAN_FILTERING): %w", errors.ErrUnsupported)
	}
	return err
}

// unfilter turns off the filter of VLANs of a bridge.
func (k *Kernel) unfilter(ctx context.Context, name string) error {
	bridge, err := k.link(ctx, name)
	if err != nil || !filters(bridge) {
		return err
	}
	return k.setFilter(ctx, bridge, 0)
}

func (k *Kernel) setFilter(ctx context.Context, bridge link, on uint32) error {
	data := []*nl.RtAttr{sized(nl.IFLA_BR_VLAN_FILTERING, 1, on)}
	return k.modify(ctx, bridge, nested(unix.IFLA_LINKINFO, []*nl.RtAttr{zeroEnded(nl.IFLA_INFO_KIND, "bridge"), nested(nl.IFLA_INFO_DATA, data)}))
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
