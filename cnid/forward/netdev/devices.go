// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Devices describes the devices that exist as long as the daemon is
// installed.
type Devices struct {
	// TunnelPort is the UDP port of VXLAN.
	TunnelPort uint16
	// MTU of the tunnel device and of the node's own interface, in bytes.
	MTU int
}

// Indexes are the interface indexes of those devices.
type Indexes struct {
	Tunnel, Node, NodePeer, Fragment, FragmentPeer int
}

// Links makes the tunnel device and the node's pair of devices, brings them up
// and returns their indexes. A tunnel device with another port is replaced,
// and so gets a new index.
func (h *Host) Links(want Devices) (Indexes, error) {
	h.settled = h.devices == want
	h.devices = Devices{}
	tunnel, err := h.tunnel(want)
	if err != nil {
		return Indexes{}, fmt.Errorf("make tunnel device %s: %w", hostdev.Tunnel, err)
	}
	node, nodePeer, err := h.pair(hostdev.Node, hostdev.NodePeer)
	if err != nil {
		return Indexes{}, err
	}
	fragment, fragmentPeer, err := h.pair(hostdev.Fragment, hostdev.FragmentPeer)
	if err != nil {
		return Indexes{}, err
	}
	if err := h.withoutOffloads(hostdev.Fragment); err != nil {
		return Indexes{}, err
	}
	err = errors.Join(h.tune(want.MTU, tunnel, node, nodePeer), h.tune(fragmentMTU, fragment, fragmentPeer))
	if err != nil {
		return Indexes{}, err
	}
	h.devices = want
	return Indexes{
		Tunnel: tunnel.Attrs().Index, Node: node.Attrs().Index, NodePeer: nodePeer.Attrs().Index,
		Fragment: fragment.Attrs().Index, FragmentPeer: fragmentPeer.Attrs().Index,
	}, nil
}

func (h *Host) tunnel(want Devices) (netlink.Link, error) {
	link, err := h.netlink.LinkByName(hostdev.Tunnel)
	if err == nil {
		if vxlan, ok := link.(*netlink.Vxlan); ok && vxlan.FlowBased && vxlan.Port == int(want.TunnelPort) {
			return link, nil
		}
		if err := h.netlink.LinkDel(link); err != nil {
			return nil, fmt.Errorf("delete the one with other settings: %w", err)
		}
	} else if !absent(err) {
		return nil, err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = hostdev.Tunnel
	err = h.netlink.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attrs, FlowBased: true, Port: int(want.TunnelPort),
		// A peer may leave out the checksum that UDP over IPv6 usually has
		// (RFC 6935): the inner packet has its own.
		UDPCSum: true, UDP6ZeroCSumRx: true,
	})
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf(
			"UDP port %d is taken by another VXLAN device or program; free it or choose another with --tunnel-port: %w",
			want.TunnelPort,
			err,
		)
	}
	if err != nil {
		return nil, err
	}
	h.note(RepairDevice, "device %s", hostdev.Tunnel)
	return h.netlink.LinkByName(hostdev.Tunnel)
}

// pair finds or makes a pair of veth devices.
func (h *Host) pair(name, peerName string) (end, peer netlink.Link, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make devices %s and %s: %w", name, peerName, err)
		}
	}()
	end, err = h.netlink.LinkByName(name)
	if err != nil && !absent(err) {
		return nil, nil, err
	}
	peer, peerErr := h.netlink.LinkByName(peerName)
	if err == nil && peerErr == nil {
		return end, peer, nil
	}
	if err == nil { // its peer has another name or namespace
		if err := h.netlink.LinkDel(end); err != nil {
			return nil, nil, err
		}
	}
	return h.makePair(name, peerName)
}

func (h *Host) makePair(name, peerName string) (end, peer netlink.Link, err error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	if err := h.netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peerName}); err != nil {
		return nil, nil, err
	}
	h.note(RepairDevice, "devices %s and %s", name, peerName)
	if end, err = h.netlink.LinkByName(name); err != nil {
		return nil, nil, err
	}
	peer, err = h.netlink.LinkByName(peerName)
	return end, peer, err
}

// tune sets up devices with an MTU in bytes, without ARP and link-local addresses, so that
// the kernel itself sends no packets into a VPC.
func (h *Host) tune(mtu int, links ...netlink.Link) error {
	for _, link := range links {
		if err := h.tuneOne(link, mtu); err != nil {
			return fmt.Errorf("set up device %s: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

func (h *Host) tuneOne(link netlink.Link, mtu int) error {
	attrs := link.Attrs()
	if attrs.Flags&net.FlagUp == 0 {
		// The kernel makes the link-local address when the device comes up.
		if err := h.netlink.LinkSetIP6AddrGenMode(link, noAddress); err != nil && h.sysctls.hasIPv6() {
			return err
		}
	}
	if attrs.RawFlags&unix.IFF_NOARP == 0 {
		if err := h.netlink.LinkSetARPOff(link); err != nil {
			return err
		}
	}
	if err := h.settle(attrs.Name); err != nil {
		return err
	}
	return h.restore(link, mtu)
}

// restore gives a device its MTU, in bytes, and brings it up.
func (h *Host) restore(link netlink.Link, mtu int) error {
	attrs := link.Attrs()
	if attrs.MTU != mtu {
		if err := h.netlink.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("set MTU %d of %s: %w", mtu, attrs.Name, err)
		}
		h.note(RepairDevice, "MTU of %s", attrs.Name)
	}
	if attrs.Flags&net.FlagUp == 0 {
		if err := h.netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("bring up %s: %w", attrs.Name, err)
		}
		h.note(RepairDevice, "%s, which was down,", attrs.Name)
	}
	return nil
}

// noAddress is IN6_ADDR_GEN_MODE_NONE of linux/if_link.h.
const noAddress = 1

func (h *Host) applyNode(want hostdev.NodeInterface) error {
	link, err := h.netlink.LinkByName(hostdev.Node)
	if err != nil {
		return fmt.Errorf("find device %s: %w", hostdev.Node, err)
	}
	return onDevice(link.Attrs().Index, h.applyNodeDevice(link, want))
}

func (h *Host) applyNodeDevice(link netlink.Link, want hostdev.NodeInterface) error {
	if len(want.Addrs) == 0 {
		return h.keepAddresses(link, nil)
	}
	if !bytes.Equal(link.Attrs().HardwareAddr, want.MAC[:]) {
		if err := h.netlink.LinkSetHardwareAddr(link, want.MAC[:]); err != nil {
			return fmt.Errorf("set MAC of %s: %w", hostdev.Node, err)
		}
		h.note(RepairDevice, "MAC of %s", hostdev.Node)
	}
	return h.keepAddresses(link, want.Addrs)
}

// deleteDevices deletes every device with a name of Alioth's devices.
func (h *Host) deleteDevices() error {
	links, err := rtnl.Complete(h.netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	var failures []error
	for _, link := range links {
		name := link.Attrs().Name
		managed := slices.Contains(hostdev.Names, name) || isPodDevice(name)
		if !managed {
			continue
		}
		err := h.netlink.LinkDel(link)
		if err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) {
			failures = append(failures, fmt.Errorf("delete device %s: %w", name, err))
		}
	}
	return errors.Join(failures...)
}

// isPodDevice recognises the prefix with the 12 hexadecimal digits behind it.
func isPodDevice(name string) bool {
	digits, ok := strings.CutPrefix(name, hostdev.PodPrefix)
	return ok && len(digits) == 12 && strings.Trim(digits, "0123456789abcdef") == ""
}
