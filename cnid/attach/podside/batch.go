// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podside

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/netdev/hostdev"
)

// Batch is a list of requests for one system call. The kernel executes them in order and
// continues after a failure. It takes its lock of all devices for each of them, but the
// thread does not sleep in between, which under load takes far longer than the requests.
type Batch struct {
	requests []*nl.NetlinkRequest
	// doing describes each request, for errors.
	doing []string
	// accepted has the error that is as good as success, by request.
	accepted map[int]error
}

// Add adds a request of a kind, with the flags and the body given. doing describes it, for
// errors.
func (b *Batch) Add(doing string, kind, flags int, data ...nl.NetlinkRequestData) {
	request := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	for _, d := range data {
		request.AddData(d)
	}
	b.requests, b.doing = append(b.requests, request), append(b.doing, doing)
}

// SetLink changes a device: those of its flags that change has, and attributes.
func (b *Batch) SetLink(doing string, ifindex int, flags, change uint32, data ...nl.NetlinkRequestData) {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index, msg.Flags, msg.Change = int32(ifindex), flags, change
	b.Add(doing, unix.RTM_SETLINK, 0, append([]nl.NetlinkRequestData{msg}, data...)...)
}

// SetUp sets a device up, with attributes.
func (b *Batch) SetUp(doing string, ifindex int, data ...nl.NetlinkRequestData) {
	b.SetLink(doing, ifindex, unix.IFF_UP, unix.IFF_UP, data...)
}

// NoLinkLocal is the attribute that prevents the kernel from adding an IPv6 link-local
// address to a device. A kernel without IPv6 has no such setting, and needs none.
func NoLinkLocal() *nl.RtAttr {
	mode := nl.NewRtAttr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{nl.IN6_ADDR_GEN_MODE_NONE})
	family := nl.NewRtAttr(unix.AF_INET6, mode.Serialize())
	return nl.NewRtAttr(unix.IFLA_AF_SPEC, family.Serialize())
}

// Settle gives a new device of Alioth on the node its kernel settings: those of IPv4 in one
// request, those of IPv6 at once by files, which the calling thread's namespace must have. A
// device without IPv6 has no files. New devices forward as the node does.
func (b *Batch) Settle(ifindex int, device string) error {
	for _, s := range hostdev.Settings {
		if s.Family != hostdev.IPv6 || s.Name == hostdev.Forwarding {
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

// ofIPv4 is the attribute with the settings of IPv4 among these, but for forwarding.
func ofIPv4(settings []hostdev.Setting) *nl.RtAttr {
	conf := nl.NewRtAttr(inetConf, nil)
	for _, s := range settings {
		if s.Family == hostdev.IPv4 && s.Name != hostdev.Forwarding {
			conf.AddRtAttr(int(s.ID), nl.Uint32Attr(uint32(s.Value)))
		}
	}
	family := nl.NewRtAttr(unix.AF_INET, conf.Serialize())
	return nl.NewRtAttr(unix.IFLA_AF_SPEC, family.Serialize())
}

// inetConf is IFLA_INET_CONF of linux/if_link.h.
const inetConf = 1

func (b *Batch) addName(ifindex int, name string) {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(ifindex)
	list := nl.NewRtAttr(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, nil)
	list.AddRtAttr(unix.IFLA_ALT_IFNAME, []byte(name))
	b.Add(fmt.Sprintf("add the name %q", name), unix.RTM_NEWLINKPROP, 0, msg, list)
}

// addAddress adds an address that is never tentative: a tentative address can't be used.
func (b *Batch) addAddress(ifindex int, address netip.Prefix) {
	msg := nl.NewIfAddrmsg(familyOf(address.Addr()))
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
func (b *Batch) addRoute(ifindex int, route attach.Route, onLink bool) {
	msg := nl.NewRtMsg()
	if !route.Gateway.IsValid() {
		msg.Scope = unix.RT_SCOPE_LINK
	}
	if onLink {
		msg.Flags = unix.RTNH_F_ONLINK
	}
	b.Add("add "+words(route), unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, describe(msg, ifindex, route)...)
}

// removeRoute removes a route by an interface, whoever has made it. One that does not exist
// is no error.
func (b *Batch) removeRoute(ifindex int, route attach.Route) {
	if b.accepted == nil {
		b.accepted = map[int]error{}
	}
	b.accepted[len(b.requests)] = unix.ESRCH
	b.Add("remove "+words(route), unix.RTM_DELROUTE, 0, describe(nl.NewRtDelMsg(), ifindex, route)...)
}

// describe completes the message about a route, and adds its attributes.
func describe(msg *nl.RtMsg, ifindex int, route attach.Route) []nl.NetlinkRequestData {
	msg.Family, msg.Dst_len = uint8(familyOf(route.Dst.Addr())), uint8(route.Dst.Bits())
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
func words(route attach.Route) string {
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

// rule adds or removes a rule, by the kind of the request. A rule that has that state
// already is no error: rules outlive the interface that they were added with.
func (b *Batch) rule(doing string, kind int, rule attach.Rule, accepted error) {
	flags := 0
	if kind == unix.RTM_NEWRULE {
		flags = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	}
	// The message is that of a route; its Type is the action (linux/fib_rules.h).
	msg := &nl.RtMsg{RtMsg: unix.RtMsg{
		Family: uint8(familyOf(rule.From.Addr())), Src_len: uint8(rule.From.Bits()), Table: unix.RT_TABLE_UNSPEC, Type: nl.FR_ACT_TO_TBL,
	}}
	if b.accepted == nil {
		b.accepted = map[int]error{}
	}
	b.accepted[len(b.requests)] = accepted
	b.Add(fmt.Sprintf("%s rule from %s to table %d", doing, rule.From, rule.Table), kind, flags, msg,
		nl.NewRtAttr(nl.FRA_SRC, rule.From.Addr().AsSlice()), nl.NewRtAttr(nl.FRA_TABLE, nl.Uint32Attr(uint32(rule.Table))))
}

func (b *Batch) addRule(rule attach.Rule) { b.rule("add", unix.RTM_NEWRULE, rule, unix.EEXIST) }

// RemoveRule removes a routing rule. One that does not exist is no error.
func (b *Batch) RemoveRule(rule attach.Rule) { b.rule("remove", unix.RTM_DELRULE, rule, unix.ENOENT) }

func familyOf(ip netip.Addr) int {
	if ip.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// Execute sends a batch by the socket and returns the errors, nil without any.
func (s *Socket) Execute(b *Batch) error {
	if len(b.requests) == 0 {
		return nil
	}
	socket := s.batches
	var text bytes.Buffer
	index := map[uint32]int{}
	for i, request := range b.requests {
		text.Write(request.Serialize())
		index[request.Seq] = i
	}
	if err := unix.Sendto(socket.GetFd(), text.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send requests: %w", err)
	}
	errs := make([]error, len(b.requests))
	for len(index) > 0 {
		messages, _, err := socket.Receive()
		if err != nil {
			return fmt.Errorf("receive answers: %w", err)
		}
		for _, m := range messages {
			i, ok := index[m.Header.Seq]
			if !ok || m.Header.Type != unix.NLMSG_ERROR {
				continue
			}
			delete(index, m.Header.Seq)
			if err := answered(m); err != nil && !errors.Is(err, b.accepted[i]) {
				errs[i] = fmt.Errorf("%s: %w", b.doing[i], err)
			}
		}
	}
	return errors.Join(errs...)
}

// answered returns the error of a reply, nil for success.
func answered(m syscall.NetlinkMessage) error {
	if len(m.Data) < 4 {
		return errors.New("short answer of the kernel")
	}
	if errno := int32(nl.NativeEndian().Uint32(m.Data)); errno != 0 {
		return unix.Errno(-errno)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
