// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podside

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Settle gives a new device of Alioth on the node its kernel settings. It writes the settings of
// IPv4 in one request. It writes the settings of IPv6 at once by files, which the calling
// thread's namespace must have. A device without IPv6 has no files. New devices forward as the
// node does.
func Settle(b *rtnl.Batch, ifindex int, device string) error {
	for _, s := range hostdev.Settings {
		if s.Family != ipfamily.IPv6 || s.Name == hostdev.Forwarding {
			continue
		}
		err := setIPv6(device, s.Name, strconv.Itoa(s.Value))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set IPv6 setting %s: %w", s.Name, err)
		}
	}
	b.SetLink("set kernel settings of IPv4", ifindex, 0, 0, ofIPv4(hostdev.Settings))
	return nil
}

// ofIPv4 returns the attribute with the settings of IPv4 among these, but for forwarding.
func ofIPv4(settings []hostdev.Setting) *nl.RtAttr {
	conf := nl.NewRtAttr(inetConf, nil)
	for _, s := range settings {
		if s.Family == ipfamily.IPv4 && s.Name != hostdev.Forwarding {
			conf.AddRtAttr(int(s.ID), nl.Uint32Attr(uint32(s.Value)))
		}
	}
	family := nl.NewRtAttr(unix.AF_INET, conf.Serialize())
	return nl.NewRtAttr(unix.IFLA_AF_SPEC, family.Serialize())
}

// inetConf is IFLA_INET_CONF of linux/if_link.h.
const inetConf = 1

func addName(b *rtnl.Batch, ifindex int, name string) {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(ifindex)
	list := nl.NewRtAttr(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, nil)
	list.AddRtAttr(unix.IFLA_ALT_IFNAME, []byte(name))
	b.Add(fmt.Sprintf("add the name %q", name), unix.RTM_NEWLINKPROP, 0, msg, list)
}

// addAddress adds an address that is never tentative: a tentative address can't be used.
func addAddress(b *rtnl.Batch, ifindex int, address netip.Prefix) {
	msg := nl.NewIfAddrmsg(int(ipfamily.Of(address.Addr()).Number()))
	msg.Index, msg.Prefixlen = uint32(ifindex), uint8(address.Bits())
	data := []nl.NetlinkRequestData{
		msg, nl.NewRtAttr(unix.IFA_LOCAL, address.Addr().AsSlice()), nl.NewRtAttr(unix.IFA_ADDRESS, address.Addr().AsSlice()),
	}
	if address.Addr().Is6() {
		msg.Flags = unix.IFA_F_NODAD
	} else if address.Bits() < 31 {
		data = append(data, nl.NewRtAttr(unix.IFA_BROADCAST, broadcastOf(address)))
	}
	b.Add(fmt.Sprintf("add address %s", address), unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, data...)
}

// broadcastOf returns the last address of an IPv4 prefix.
func broadcastOf(prefix netip.Prefix) []byte {
	last := prefix.Addr().AsSlice()
	for i, m := range ipNet(prefix).Mask {
		last[i] |= ^m
	}
	return last
}

// addRoute adds a route by an interface. With onLink its gateway is on the link even if no
// address's prefix contains it.
func addRoute(b *rtnl.Batch, ifindex int, route netif.Route, onLink bool) {
	msg := nl.NewRtMsg()
	if !route.Gateway.IsValid() {
		msg.Scope = unix.RT_SCOPE_LINK
	}
	if onLink {
		msg.Flags = unix.RTNH_F_ONLINK
	}
	b.Add("add "+words(route), unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, describe(msg, ifindex, route)...)
}

// removeRoute removes a route by an interface, also a route of another program. A missing route is not an
// error.
func removeRoute(b *rtnl.Batch, ifindex int, route netif.Route) {
	b.AddAccepting(unix.ESRCH, "remove "+words(route), unix.RTM_DELROUTE, 0, describe(nl.NewRtDelMsg(), ifindex, route)...)
}

// describe completes the message about a route, and adds its attributes.
func describe(msg *nl.RtMsg, ifindex int, route netif.Route) []nl.NetlinkRequestData {
	msg.Family, msg.Dst_len = ipfamily.Of(route.Dst.Addr()).Number(), uint8(route.Dst.Bits())
	data := []nl.NetlinkRequestData{msg, nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(ifindex)))}
	if route.Dst.Bits() > 0 {
		data = append(data, nl.NewRtAttr(unix.RTA_DST, route.Dst.Addr().AsSlice()))
	}
	if route.Gateway.IsValid() {
		data = append(data, nl.NewRtAttr(unix.RTA_GATEWAY, route.Gateway.AsSlice()))
	}
	if route.Table != 0 {
		msg.Table = unix.RT_TABLE_UNSPEC // the attribute has room for all numbers
		data = append(data, nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(uint32(route.Table))))
	}
	return data
}

// words describes a route for people.
func words(route netif.Route) string {
	text := "route to " + route.Dst.String()
	if route.Dst.Bits() == 0 {
		text = "default route"
	}
	if route.Gateway.IsValid() {
		text += " by " + route.Gateway.String()
	}
	if route.Table != 0 {
		text += fmt.Sprintf(" in table %d", route.Table)
	}
	return text
}

// setRule adds or removes a rule, by the kind of the request. A rule with the wanted state is not
// an error: rules outlive the interface that they were added with.
func setRule(b *rtnl.Batch, doing string, kind int, rule netif.Rule, accepted error) {
	flags := 0
	if kind == unix.RTM_NEWRULE {
		flags = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	}
	// The message has the format of a route; its Type is the action (linux/fib_rules.h).
	msg := &nl.RtMsg{RtMsg: unix.RtMsg{
		Family: ipfamily.Of(rule.From.Addr()).
			Number(),
		Src_len: uint8(rule.From.Bits()), Table: unix.RT_TABLE_UNSPEC, Type: nl.FR_ACT_TO_TBL,
	}}
	b.AddAccepting(accepted, fmt.Sprintf("%s rule from %s to table %d", doing, rule.From, rule.Table), kind, flags, msg,
		nl.NewRtAttr(nl.FRA_SRC, rule.From.Addr().AsSlice()), nl.NewRtAttr(nl.FRA_TABLE, nl.Uint32Attr(uint32(rule.Table))))
}

func addRule(b *rtnl.Batch, rule netif.Rule) { setRule(b, "add", unix.RTM_NEWRULE, rule, unix.EEXIST) }

// RemoveRule removes a routing rule. A missing rule is not an error.
func RemoveRule(b *rtnl.Batch, rule netif.Rule) {
	setRule(b, "remove", unix.RTM_DELRULE, rule, unix.ENOENT)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
