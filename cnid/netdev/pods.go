// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/netdev/hostdev"
	"github.com/alioth-net/alioth/ebpf/netlinkdump"
)

// applyPods restores the settings of pods' host ends. It does not create missing ones.
func (h *Host) applyPods(pods, last []hostdev.Pod) error {
	if len(pods) == 0 {
		return nil
	}
	links, err := netlinkdump.Complete(h.netlink.LinkList)
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

// tunePod replaces a distribution's defaults for new devices, for the pod's families.
func (h *Host) tunePod(pod hostdev.Pod) error {
	for _, shadow := range pod.Shadows {
		setting, value := perDevice("ipv4", pod.Device, "rp_filter"), "2"
		if shadow.Is6() {
			setting, value = perDevice("ipv6", pod.Device, "disable_ipv6"), "0"
		}
		if err := h.set(setting, value, forget); err != nil {
			return err
		}
	}
	if !pod.Loopback {
		return nil
	}
	return h.set(perDevice("ipv4", pod.Device, "route_localnet"), "1", forget)
}
