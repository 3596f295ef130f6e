// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Overhead of VXLAN (RFC 7348 section 5) in bytes: outer IP header, UDP and
// VXLAN headers, and the inner Ethernet header.
const (
	OverheadIPv4 = 20 + 8 + 8 + 14
	OverheadIPv6 = 40 + 8 + 8 + 14
)

// ErrNoUnderlay reports that no device has the node's address.
var ErrNoUnderlay = errors.New("no device of this node has the address")

// Underlay is the device that holds the node's tunnel address.
type Underlay struct {
	Device  string
	Ifindex int
	// Group is the group of devices that an administrator has put it in, usually 0.
	Group uint32
	// MAC of the device; zero where it has none of 6 bytes.
	MAC [6]byte
	// PodMTU is the size in bytes of the largest packet of a pod that fits
	// through the tunnel.
	PodMTU int
}

// Underlay finds the device that has the tunnel address. The error wraps ErrNoUnderlay if no
// device has it.
func (h *Host) Underlay(tunnelAddress netip.Addr) (Underlay, error) {
	addrs, err := rtnl.Complete(func() ([]netlink.Addr, error) { return h.netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return Underlay{}, fmt.Errorf("list addresses: %w", err)
	}
	for _, addr := range addrs {
		if prefixOf(addr.IPNet).Addr() != tunnelAddress {
			continue
		}
		link, err := h.netlink.LinkByIndex(addr.LinkIndex)
		if err != nil {
			return Underlay{}, fmt.Errorf("find the device of %v: %w", tunnelAddress, err)
		}
		overhead := OverheadIPv6
		if tunnelAddress.Is4() {
			overhead = OverheadIPv4
		}
		found := Underlay{
			Device:  link.Attrs().Name,
			Ifindex: addr.LinkIndex,
			Group:   link.Attrs().Group,
			PodMTU:  link.Attrs().MTU - overhead,
		}
		copy(found.MAC[:], link.Attrs().HardwareAddr)
		return found, nil
	}
	return Underlay{}, fmt.Errorf(
		"%w %v; does the Node's InternalIP belong to this machine?",
		ErrNoUnderlay,
		tunnelAddress,
	)
}

// Existing returns the indexes of the existing devices, by name. It uses an ioctl for
// each, which unlike a dump does not wait for changes of other devices.
func (h *Host) Existing(names []string) (map[string]int, error) {
	found := make(map[string]int, len(names))
	for _, name := range names {
		request, err := unix.NewIfreq(name)
		if err != nil {
			return nil, fmt.Errorf("look for device %q: %w", name, err)
		}
		err = unix.IoctlIfreq(h.socket, unix.SIOCGIFINDEX, request)
		if errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for device %s: %w", name, err)
		}
		found[name] = int(request.Uint32())
	}
	return found, nil
}
