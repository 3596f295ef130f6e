// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/attach/podside"
	"github.com/alioth-net/alioth/cnid/netns"
	"github.com/alioth-net/alioth/ebpf/netlinkdump"
)

// numberOf returns the number that the node's namespace has for a pod's, and gives it one
// if it has none. The number lasts as long as the pod's namespace.
func (d *session) numberOf(pod ns.NetNS) (int, error) {
	number, err := d.host.GetNetNsIdByFd(int(pod.Fd()))
	if err == nil && number < 0 {
		const next = -1 // the kernel chooses
		// An attachment of the same pod may have been faster.
		if err = d.host.SetNetNsIdByFd(int(pod.Fd()), next); err == nil || errors.Is(err, unix.EEXIST) {
			number, err = d.host.GetNetNsIdByFd(int(pod.Fd()))
		}
	}
	if err != nil {
		return 0, fmt.Errorf("number the pod's network namespace: %w", err)
	}
	return number, nil
}

// inNumber is a message about a device in the namespace of a number.
func inNumber(kind, flags, ifindex, number int) *nl.NetlinkRequest {
	request := nl.NewNetlinkRequest(kind, flags)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(ifindex)
	request.AddData(msg)
	request.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(number))))
	return request
}

// linksIn returns the devices in the namespace of a number, none if there is none.
func (d *session) linksIn(number int) ([]netlink.Link, error) {
	messages, err := netlinkdump.Complete(func() ([][]byte, error) {
		return d.host.Request(inNumber(unix.RTM_GETLINK, unix.NLM_F_DUMP, 0, number), unix.RTM_NEWLINK)
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

// Detach implements attach.Driver.
func (d *Driver) Detach(ctx context.Context, containerID, ifName string) error {
	return d.with(ctx, func(s *session) error { return s.detach(containerID, ifName) })
}

func (d *session) detach(containerID, ifName string) error {
	n, ok, err := d.notes.get(containerID, ifName)
	if err != nil || !ok {
		return err
	}
	if err := d.clear(n); err != nil {
		return err
	}
	return d.notes.remove(n)
}

// clear removes an interface and its rules. Where its namespace is not at its path, the
// rules stay, and end with it.
func (d *session) clear(n note) error {
	pod, err := n.open()
	if err != nil {
		return err
	}
	if pod == nil {
		return d.clearByNumber(n)
	}
	defer func() { _ = pod.Close() }()
	return podside.Within(pod, func(h *podside.Socket) error {
		var b podside.Batch
		for _, rule := range n.Rules {
			b.RemoveRule(rule)
		}
		return errors.Join(d.clearIn(h, n), h.Execute(&b))
	})
}

// open opens the namespace of an interface, and returns nil if it is not at its path.
func (n note) open() (ns.NetNS, error) {
	pod, err := netns.Open(n.NetnsPath)
	if errors.Is(err, netns.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	id, err := netns.Of(pod)
	if err == nil && id == (netns.ID{Inode: n.Inode, Cookie: n.Cookie}) {
		return pod, nil
	}
	_ = pod.Close() // nothing was written
	return nil, err
}

// clearBefore removes remains of which the notes were lost.
func (d *session) clearBefore(h *podside.Socket, n note) error {
	for _, name := range []string{n.temporary(), n.IfName} {
		if _, err := h.IndexOf(name); err == nil {
			return d.clearIn(h, n)
		}
	}
	return nil
}

func (d *session) clearIn(h *podside.Socket, n note) error {
	links, err := netlinkdump.Complete(h.LinkList)
	if err != nil {
		return fmt.Errorf("list the pod's devices: %w", err)
	}
	return d.delete(links, n, h.LinkDel)
}

func (d *session) clearByNumber(n note) error {
	links, err := d.linksIn(n.Number)
	if err != nil {
		return err
	}
	return d.delete(links, n, func(link netlink.Link) error {
		_, err := d.host.Request(inNumber(unix.RTM_DELLINK, unix.NLM_F_ACK, link.Attrs().Index, n.Number), 0)
		return err
	})
}

// delete deletes those of the pod's devices that are the interface. The end of the pod's
// namespace, or of the parent, may do it first.
func (d *session) delete(links []netlink.Link, n note, remove func(netlink.Link) error) error {
	var failed []error
	for _, link := range links {
		if !n.made(link, d.devices.Kind) {
			continue
		}
		err := remove(link)
		if err != nil && !podside.IsNotFound(err) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) {
			failed = append(failed, fmt.Errorf("delete %s: %w", link.Attrs().Name, err))
		}
	}
	return errors.Join(failed...)
}

// name gives an interface that was just made its mark, its address and its name. Some
// get the address of their parent when they are made, so it is set again, unless they share
// it.
func (d Devices) name(h *podside.Socket, ifindex int, n note, spec attach.Spec) error {
	attrs := []nl.NetlinkRequestData{nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(n.Mark)), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(spec.IfName))}
	if !d.SharesMAC {
		attrs = append(attrs, nl.NewRtAttr(unix.IFLA_ADDRESS, spec.MAC))
	}
	var b podside.Batch
	b.SetLink("set alias, address and name", ifindex, 0, 0, attrs...)
	err := h.Execute(&b)
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("pod has an interface %s that Alioth did not make: %w", spec.IfName, attach.ErrExists)
	}
	return err
}
