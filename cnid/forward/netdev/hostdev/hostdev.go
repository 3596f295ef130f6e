// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostdev describes the network devices of a node: their names, and the State that
// package netdev applies. It is pure, so that packages that plan a State do not link
// netlink.
package hostdev

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
	// Tunnel is the VXLAN device.
	Tunnel = "alioth_vxlan"
	// Node is the node's own interface in the default VPC.
	Node = "alioth_node"
	// NodePeer is its far end, where the datapath is attached.
	NodePeer = "alioth_nodep"
	// Fragment receives packets that have to be fragmented on their way through the
	// tunnel, one segment at a time.
	Fragment = "alioth_frag"
	// FragmentPeer is its far end, where the datapath fragments them.
	FragmentPeer = "alioth_fragp"
	// PodPrefix is the prefix of the names of the host ends of pods. A name gives no
	// trust: PodGroup does.
	PodPrefix = "alv"
)

// PodGroup is the group of devices (IFLA_GROUP of rtnetlink(7)) of the host ends of pods,
// and of no other device. The daemon sets it when it makes a host end, and the packet
// filter trusts the group. It begins and ends with the device, as no list of names or
// indexes does.
const PodGroup uint32 = 0x616c7670

// PodKinds are the kernel's names, in order, of the kinds of host ends. A device that a pod
// had for a while keeps the group that the pod gave it, but is of another kind.
var PodKinds = []string{"netkit", "veth"}

// Names are the devices that every node has.
var Names = []string{Tunnel, Node, NodePeer, Fragment, FragmentPeer}

// Managed reports whether a device of that name is Alioth's.
func Managed(name string) bool {
	return slices.Contains(Names, name) || strings.HasPrefix(name, PodPrefix)
}

// State is the desired state that netdev.Host.Apply applies.
type State struct {
	// Shadows are the node's own shadow addresses, at most one per family:
	// the sources of the node's packets to a pod's shadow.
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
	// Prefixes are the ranges of the default VPC. A range gets a route only if the
	// node has an address of its family.
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
	// Loopback lets the pod reply to packets that the node sends from a loopback
	// address, which the packet filter has translated.
	Loopback bool
}

// ErrInvalid is wrapped by the errors of Validate.
var ErrInvalid = errors.New("invalid state of devices")

// Validate reports contradictions, and states that can't be applied.
func (s State) Validate() error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

func (s State) validate() error {
	if err := onePerFamily(s.Shadows); err != nil {
		return fmt.Errorf("the node's shadows: %w", err)
	}
	if err := s.Node.validate(); err != nil {
		return err
	}
	for _, pod := range s.Pods {
		if err := pod.validate(); err != nil {
			return err
		}
	}
	return nil
}

// Sound returns the state without what contradicts itself, and why that is left out: the
// devices of single pods, and the node's own interface in the default VPC.
func (s State) Sound() (State, []error) {
	var left []error
	if err := s.Node.validate(); err != nil {
		s.Node, left = NodeInterface{}, append(left, err)
	}
	s.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(pod Pod) bool {
		err := pod.validate()
		if err != nil {
			left = append(left, err)
		}
		return err != nil
	})
	return s, left
}

func (n NodeInterface) validate() error {
	if err := onePerFamily(n.Addrs); err != nil {
		return fmt.Errorf("the node's addresses in the default VPC: %w", err)
	}
	if len(n.Addrs) > 0 && n.MAC[0]&1 != 0 {
		return fmt.Errorf("the node's MAC %v is a group address", net.HardwareAddr(n.MAC[:]))
	}
	return nil
}

func (p Pod) validate() error {
	if p.Ifindex <= 0 {
		return fmt.Errorf("device %q has no interface index", p.Device)
	}
	if err := onePerFamily(p.Shadows); err != nil {
		return fmt.Errorf("shadows of device %s: %w", p.Device, err)
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
