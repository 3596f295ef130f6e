// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netdev makes the node's side of the network: the tunnel device, the
// pair of devices that is the node's own interface in the default VPC, a pair by
// which the datapath fragments, the
// node's shadow addresses, a route to every pod's shadow, and the kernel
// settings that forwarding needs.
//
// Links makes the devices that always exist; Apply takes the rest from a
// State. Both read the kernel first and change only what differs, so they may
// be called any number of times and repair what somebody removed. Routes of
// Alioth carry the routing protocol number RouteProtocol, and only those are
// ever deleted. Uninstall undoes everything, kernel settings included.
package netdev

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Names of the devices that belong to Alioth.
const (
	// TunnelDevice is the VXLAN device.
	TunnelDevice = "alioth_vxlan"
	// NodeDevice is the node's own interface in the default VPC.
	NodeDevice = "alioth_node"
	// NodePeerDevice is its far end, where the datapath is attached.
	NodePeerDevice = "alioth_nodep"
	// FragmentDevice takes what has to be fragmented on its way through the
	// tunnel, one segment at a time.
	FragmentDevice = "alioth_frag"
	// FragmentPeerDevice is its far end, where the datapath does it.
	FragmentPeerDevice = "alioth_fragp"
	// PodDevices is the prefix of the names of the host ends of pods.
	PodDevices = "alv"
)

// NodeDevices are the devices that every node has.
var NodeDevices = []string{TunnelDevice, NodeDevice, NodePeerDevice, FragmentDevice, FragmentPeerDevice}

// OwnName reports whether a device of that name is Alioth's.
func OwnName(name string) bool {
	return slices.Contains(NodeDevices, name) || strings.HasPrefix(name, PodDevices)
}

// RouteProtocol marks Alioth's routes (the field rtm_protocol of rtnetlink).
const RouteProtocol = 161

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

// State is what Apply makes true.
type State struct {
	// Shadows are the node's own shadow addresses, at most one per family:
	// the sources of everything that the node sends to a pod's shadow.
	Shadows []netip.Addr
	// Node is the node's interface in the default VPC.
	Node NodeInterface
	Pods []Pod
}

// NodeInterface is the node's own interface in the default VPC; without Addrs
// the node has none yet.
type NodeInterface struct {
	// Addrs are the node's own addresses there, at most one per family.
	Addrs []netip.Addr
	MAC   [6]byte
	// Prefixes are the ranges of the default VPC. One of a family of which
	// the node has no address gets no route.
	Prefixes []netip.Prefix
}

// Pod is the host end of a pod's interface.
type Pod struct {
	Device  string
	Ifindex int
	// MTU in bytes and MAC of the device; 0 and the zero value are left as they
	// are.
	MTU int
	MAC [6]byte
	// Shadows of the pod, at most one per family.
	Shadows []netip.Addr
	// Loopback lets the pod answer what the node sends to it from a loopback
	// address, which the packet filter has translated.
	Loopback bool
}

func (s State) validate() error {
	if err := onePerFamily(s.Shadows); err != nil {
		return fmt.Errorf("the node's shadows: %w", err)
	}
	if err := onePerFamily(s.Node.Addrs); err != nil {
		return fmt.Errorf("the node's addresses in the default VPC: %w", err)
	}
	if len(s.Node.Addrs) > 0 && s.Node.MAC[0]&1 != 0 {
		return fmt.Errorf("the node's MAC %v is a group address", net.HardwareAddr(s.Node.MAC[:]))
	}
	for _, pod := range s.Pods {
		if pod.Ifindex <= 0 {
			return fmt.Errorf("device %q has no interface index", pod.Device)
		}
		if err := onePerFamily(pod.Shadows); err != nil {
			return fmt.Errorf("shadows of device %s: %w", pod.Device, err)
		}
	}
	return nil
}

func onePerFamily(addrs []netip.Addr) error {
	seen := map[bool]bool{}
	for _, a := range addrs {
		if !a.IsValid() || a.Is4In6() {
			return fmt.Errorf("%v is no plain address", a)
		}
		if seen[a.Is4()] {
			return errors.New("more than one of a family")
		}
		seen[a.Is4()] = true
	}
	return nil
}

// ofFamily returns the address of the list that is of the same family as
// like.
func ofFamily(list []netip.Addr, like netip.Addr) (netip.Addr, bool) {
	for _, a := range list {
		if a.Is4() == like.Is4() {
			return a, true
		}
	}
	return netip.Addr{}, false
}
