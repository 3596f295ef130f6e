// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// batch is a list of requests for one system call. The kernel executes them in order and
// continues after a failure. It takes its lock of all devices for each of them, but the
// thread does not sleep in between, which under load takes far longer than the requests.
type batch struct {
	requests []*nl.NetlinkRequest
	// doing describes each request, for errors.
	doing []string
}

func (b *batch) add(doing string, kind, flags int, data ...nl.NetlinkRequestData) {
	request := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	for _, d := range data {
		request.AddData(d)
	}
	b.requests, b.doing = append(b.requests, request), append(b.doing, doing)
}

// setLink changes a device: those of its flags that change has, and attributes.
func (b *batch) setLink(doing string, ifindex int, flags, change uint32, data ...nl.NetlinkRequestData) {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index, msg.Flags, msg.Change = int32(ifindex), flags, change
	b.add(doing, unix.RTM_SETLINK, 0, append([]nl.NetlinkRequestData{msg}, data...)...)
}

func (b *batch) setUp(doing string, ifindex int) { b.setLink(doing, ifindex, unix.IFF_UP, unix.IFF_UP) }

// noLinkLocal is the attribute that prevents the kernel from adding an IPv6 link-local
// address to a device. A kernel without IPv6 has no such setting, and needs none.
func noLinkLocal() *nl.RtAttr {
	mode := nl.NewRtAttr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{nl.IN6_ADDR_GEN_MODE_NONE})
	family := nl.NewRtAttr(unix.AF_INET6, mode.Serialize())
	return nl.NewRtAttr(unix.IFLA_AF_SPEC, family.Serialize())
}

func (b *batch) addName(ifindex int, name string) {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(ifindex)
	list := nl.NewRtAttr(unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, nil)
	list.AddRtAttr(unix.IFLA_ALT_IFNAME, []byte(name))
	b.add(fmt.Sprintf("add the name %q", name), unix.RTM_NEWLINKPROP, 0, msg, list)
}

// addClsact adds the qdisc that programs of the datapath are attached to.
func (b *batch) addClsact(ifindex int) {
	msg := &nl.TcMsg{Ifindex: int32(ifindex), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
	b.add("add a clsact qdisc", unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL, msg, nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("clsact")))
}

// addAddress adds an address that is never tentative: a tentative address can't be used.
func (b *batch) addAddress(ifindex int, address netip.Prefix) {
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
	b.add(fmt.Sprintf("add address %s", address), unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, data...)
}

// broadcastOf returns the last address of an IPv4 prefix.
func broadcastOf(prefix netip.Prefix) []byte {
	last := prefix.Addr().AsSlice()
	for i, m := range ipNet(prefix).Mask {
		last[i] |= ^m
	}
	return last
}

// addDefaultRoute adds a route by a gateway that is on the link even if no address's
// prefix contains it.
func (b *batch) addDefaultRoute(ifindex int, gateway netip.Addr, onLink bool) {
	msg := nl.NewRtMsg()
	msg.Family = uint8(familyOf(gateway))
	if onLink {
		msg.Flags = unix.RTNH_F_ONLINK
	}
	b.add(fmt.Sprintf("add default route by %s", gateway), unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		msg, nl.NewRtAttr(unix.RTA_GATEWAY, gateway.AsSlice()), nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(ifindex))))
}

func familyOf(ip netip.Addr) int {
	if ip.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// execute sends the batch and returns the errors, nil without any.
func (b *batch) execute(socket *nl.NetlinkSocket) error {
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
			if err := answered(m); err != nil {
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
