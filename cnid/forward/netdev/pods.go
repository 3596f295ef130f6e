// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Recognize puts the host ends of pods into the group that the packet filter trusts, and
// removes other devices from the group. It runs before the packet filter is applied: the host
// ends of an earlier release have no group. A device with the name of a host end keeps its
// group, because it may belong to an attachment that is being made.
func (h *Host) Recognize(pods []hostdev.Pod) error {
	links, err := rtnl.Complete(h.netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	ends := make(map[int]bool, len(pods))
	for _, pod := range pods {
		ends[pod.Ifindex] = true
	}
	h.settled = len(h.applied.Shadows) > 0
	var failures []error
	for _, link := range links {
		attrs := link.Attrs()
		isEnd := ends[attrs.Index] && slices.Contains(hostdev.PodKinds, link.Type())
		if isEnd == (attrs.Group == hostdev.PodGroup) || !isEnd && isPodDevice(attrs.Name) {
			continue
		}
		failures = append(failures, h.group(link, isEnd))
	}
	return errors.Join(failures...)
}

func (h *Host) group(link netlink.Link, isEnd bool) error {
	name, group := link.Attrs().Name, uint32(0)
	if isEnd {
		group = hostdev.PodGroup
	}
	err := h.netlink.LinkSetGroup(link, int(group))
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("set the group of %s to %d: %w", name, group, err)
	}
	h.note(RepairDevice, "group of %s", name)
	return nil
}

// applyPods restores the settings of pods' host ends. It does not create missing ones.
func (h *Host) applyPods(pods, last []hostdev.Pod) error {
	if len(pods) == 0 {
		return nil
	}
	links, err := rtnl.Complete(h.netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	byIndex := map[int]netlink.Link{}
	for _, link := range links {
		byIndex[link.Attrs().Index] = link
	}
	lastMTU := map[int]int{}
	for _, pod := range last {
		lastMTU[pod.Ifindex] = pod.MTU
	}
	var failures []error
	for _, pod := range pods {
		link := byIndex[pod.Ifindex]
		if link == nil {
			continue
		}
		mtu, known := lastMTU[pod.Ifindex]
		h.settled = known && mtu == pod.MTU
		err := h.applyPod(link, pod)
		if err != nil && !errors.Is(err, unix.ENODEV) {
			failures = append(failures, onDevice(pod.Ifindex, err))
		}
	}
	return errors.Join(failures...)
}

func (h *Host) applyPod(link netlink.Link, pod hostdev.Pod) error {
	attrs := link.Attrs()
	if pod.MAC != [6]byte{} && !bytes.Equal(attrs.HardwareAddr, pod.MAC[:]) {
		if err := h.netlink.LinkSetHardwareAddr(link, pod.MAC[:]); err != nil {
			return fmt.Errorf("set MAC of %s: %w", attrs.Name, err)
		}
		h.note(RepairDevice, "MAC of %s", attrs.Name)
	}
	mtu := pod.MTU
	if mtu == 0 {
		mtu = attrs.MTU
	}
	return errors.Join(h.restore(link, mtu), h.tunePod(pod))
}

// tunePod replaces what other programs have set on a host end.
func (h *Host) tunePod(pod hostdev.Pod) error {
	if err := errors.Join(h.settle(pod.Device), h.openPod(pod)); err != nil || pod.Loopback {
		return err
	}
	return h.setOn(pod.Device, ipfamily.IPv4, "route_localnet", "0")
}

// openPod makes the settings that depend on the pod, without which its routes do not work.
// The driver has made the others.
func (h *Host) openPod(pod hostdev.Pod) error {
	if slices.ContainsFunc(pod.Shadows, netip.Addr.Is6) {
		if err := h.setOn(pod.Device, ipfamily.IPv6, "disable_ipv6", "0"); err != nil {
			return err
		}
	}
	if !pod.Loopback {
		return nil
	}
	return h.setOn(pod.Device, ipfamily.IPv4, "route_localnet", "1")
}
