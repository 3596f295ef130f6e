// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// NumberOf returns the number that the namespace of a socket, the node's, has for a pod's,
// and gives it one if it has none. The number lasts as long as the pod's namespace.
func NumberOf(host *rtnl.Socket, pod ns.NetNS) (int, error) {
	number, err := host.GetNetNsIdByFd(int(pod.Fd()))
	if err == nil && number < 0 {
		const next = -1 // the kernel chooses
		// An attachment of the same pod may have been faster.
		if err = host.SetNetNsIdByFd(int(pod.Fd()), next); err == nil || errors.Is(err, unix.EEXIST) {
			number, err = host.GetNetNsIdByFd(int(pod.Fd()))
		}
	}
	if err != nil {
		return 0, fmt.Errorf("number the pod's network namespace: %w", err)
	}
	return number, nil
}

// inNumber returns a message about a device in the namespace of a number.
func inNumber(kind, flags, ifindex, number int) *nl.NetlinkRequest {
	request := nl.NewNetlinkRequest(kind, flags)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(ifindex)
	request.AddData(msg)
	request.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(number))))
	return request
}

// LinksIn returns the devices in the namespace of a number, none without such a namespace.
func LinksIn(host *rtnl.Socket, number int) ([]netlink.Link, error) {
	messages, err := rtnl.Complete(func() ([][]byte, error) {
		return host.Request(inNumber(unix.RTM_GETLINK, unix.NLM_F_DUMP, 0, number), unix.RTM_NEWLINK)
	})
	if errors.Is(err, unix.EINVAL) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list devices of network namespace number %d: %w", number, err)
	}
	var links []netlink.Link
	for _, m := range messages {
		link, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return nil, fmt.Errorf("read a device of network namespace number %d: %w", number, err)
		}
		links = append(links, link)
	}
	return links, nil
}

// Remove removes the devices that are the interface, and its rules, wherever the namespace of the
// interface is. If the namespace is not at its path, the rules stay, and end with it. A device
// that ends meanwhile is not an error.
func (i Interface) Remove(host *rtnl.Socket, is func(netlink.Link) bool) error {
	pod, err := i.Open()
	if err != nil {
		return err
	}
	if pod == nil {
		return i.removeByNumber(host, is)
	}
	defer func() { _ = pod.Close() }()
	return podside.Within(pod, func(h *rtnl.Socket) error {
		var b rtnl.Batch
		for _, rule := range i.Rules {
			podside.RemoveRule(&b, rule)
		}
		return errors.Join(RemoveHere(h, is), h.Execute(&b))
	})
}

// RemoveHere removes the devices that are the interface, in the namespace of a socket.
func RemoveHere(h *rtnl.Socket, is func(netlink.Link) bool) error {
	links, err := rtnl.Complete(h.LinkList)
	if err != nil {
		return fmt.Errorf("list the pod's devices: %w", err)
	}
	return remove(links, is, h.LinkDel)
}

func (i Interface) removeByNumber(host *rtnl.Socket, is func(netlink.Link) bool) error {
	links, err := LinksIn(host, i.Number)
	if err != nil {
		return err
	}
	return remove(links, is, func(link netlink.Link) error {
		_, err := host.Request(inNumber(unix.RTM_DELLINK, unix.NLM_F_ACK, link.Attrs().Index, i.Number), 0)
		return err
	})
}

// remove removes some of the pod's devices. The end of the pod's namespace, or of a parent,
// may do it first.
func remove(links []netlink.Link, is func(netlink.Link) bool, del func(netlink.Link) error) error {
	var failed []error
	for _, link := range links {
		if !is(link) {
			continue
		}
		err := del(link)
		if err != nil && !podside.IsNotFound(err) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) {
			failed = append(failed, fmt.Errorf("delete %s: %w", link.Attrs().Name, err))
		}
	}
	return errors.Join(failed...)
}
