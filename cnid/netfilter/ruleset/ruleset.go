// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ruleset describes what the packet filter table of a node is made from: its
// State, with the ports of the node and the frontends of Services. It is pure, so that what
// plans a State links nothing that changes a kernel. Package netfilter makes the rules.
package ruleset

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
)

// State is everything that the table depends on.
type State struct {
	// Shadows are the ranges of shadow addresses, at most one per family and
	// at least one.
	Shadows []netip.Prefix
	// NodeShadows are the shadow addresses under which the node itself speaks to
	// pods, one per family of Shadows.
	NodeShadows []netip.Addr
	// DefaultVPC are the ranges of the default VPC; none while there is no
	// such VPC.
	DefaultVPC []netip.Prefix
	// Addresses are the node's own that the datapath knows for a node's. With
	// EgressMark a pod sends to them what is for a frontend that it may ask, and
	// nothing else.
	Addresses []netip.Addr
	// TunnelPort is the UDP port of VXLAN.
	TunnelPort uint16
	// PodDevices is the prefix of the names of the host ends of pods.
	PodDevices string
	// NodeDevice is the node's own interface in the default VPC.
	NodeDevice string
	// SealedDevices never hand a packet to the host's stack as long as the
	// datapath's programs are attached; what comes from them is dropped.
	SealedDevices []string
	// MarkMask selects the bits of a packet's mark that the datapath sets.
	// SharedMark, EgressMark and NodeMark are their values for a flow to a
	// shared service, for one to the outside, and for one of the default VPC,
	// which alone may reach nodes as well.
	MarkMask, SharedMark, EgressMark, NodeMark uint32
	// OpeningMark goes on what the node itself opens to a shadow: the datapath lets
	// through the kubelet's alone. TunneledMark is on the node's own packets around which
	// the tunnel's device has put headers. They are values of MarkMask's bits.
	OpeningMark, TunneledMark uint32
	// FlowsPerShadow is the number of conntrack entries that one shadow
	// address may hold through the door at a time, and one address of the
	// default VPC at the node's own address there; 0 means no limit. Apply
	// takes less when conntrack has no room for so many times Pods.
	FlowsPerShadow uint32
	// Pods is how many pods the node takes; 0: as many as a usual one.
	Pods uint32
	// HostPorts are the node's ports that lead to pods. Of two for one address,
	// protocol and port of the node, any may win.
	HostPorts []HostPort
	// Frontends lead to backends of Services. They are in the order of Compare, each
	// address, protocol and port once. States that share them are compared quickly.
	Frontends []*Frontend
}

// Equal reports whether two states describe the same table.
func (s State) Equal(o State) bool {
	return OnlyFrontends(s, o) && slices.EqualFunc(s.Frontends, o.Frontends, (*Frontend).Equal)
}

// OnlyFrontends reports whether two states differ in their frontends at most.
func OnlyFrontends(a, b State) bool {
	a.Frontends, b.Frontends = nil, nil
	return reflect.DeepEqual(a, b)
}

// Normal returns the state with its lists sorted, so that equal states have
// equal fingerprints.
func (s State) Normal() State {
	s.Shadows = slices.Clone(s.Shadows)
	slices.SortFunc(s.Shadows, netip.Prefix.Compare)
	s.DefaultVPC = slices.Clone(s.DefaultVPC)
	slices.SortFunc(s.DefaultVPC, netip.Prefix.Compare)
	s.NodeShadows = slices.SortedFunc(slices.Values(s.NodeShadows), netip.Addr.Compare)
	s.Addresses = slices.SortedFunc(slices.Values(s.Addresses), netip.Addr.Compare)
	s.HostPorts = sortedHostPorts(s.HostPorts)
	s.SealedDevices = slices.Sorted(slices.Values(s.SealedDevices))
	return s
}

func (s State) validatePorts() error {
	for _, p := range s.HostPorts {
		if err := p.validate(); err != nil {
			return fmt.Errorf("port %d of the node: %w", p.HostPort, err)
		}
	}
	for i, f := range s.Frontends {
		if i > 0 && s.Frontends[i-1].Compare(f) >= 0 {
			return fmt.Errorf("port %d of a service is out of order", f.Port)
		}
	}
	return ValidateFrontends(s.Frontends)
}

// Validate reports what contradicts itself.
func (s State) Validate() error {
	if len(s.Shadows) == 0 {
		return errors.New("no shadow range")
	}
	for _, p := range slices.Concat(s.Shadows, s.DefaultVPC) {
		if !p.IsValid() || p != p.Masked() {
			return fmt.Errorf("range %v is not a canonical prefix", p)
		}
	}
	if s.TunnelPort == 0 || s.PodDevices == "" || s.NodeDevice == "" {
		return errors.New("tunnel port, pod devices and node device must be set")
	}
	for _, shadow := range s.Shadows {
		if !slices.ContainsFunc(s.NodeShadows, shadow.Contains) {
			return fmt.Errorf("the node has no shadow address in range %v", shadow)
		}
	}
	return cmp.Or(s.validatePorts(), s.validateMarks())
}

func (s State) validateMarks() error {
	for _, mark := range []uint32{s.OpeningMark, s.TunneledMark} {
		if mark == 0 || mark&^s.MarkMask != 0 {
			return errors.New("the marks of the node's own packets must not be 0, and lie in the mask")
		}
	}
	marks := []uint32{0, s.SharedMark, s.EgressMark, s.NodeMark}
	for i, mark := range marks {
		if mark&^s.MarkMask != 0 || slices.Contains(marks[:i], mark) {
			return errors.New("the marks must be different, not 0, and lie in the mask")
		}
	}
	return nil
}
