// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ruleset describes the input of a node's packet filter table: its State, with
// the ports of the node and the frontends of Services. It is pure, so that packages that
// plan a State do not link netlink. Package netfilter makes the rules.
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
	// NodeShadows are the node's own shadow addresses, the sources of its packets to
	// pods, one per family of Shadows.
	NodeShadows []netip.Addr
	// DefaultVPC are the ranges of the default VPC. It is empty while the
	// cluster has no such VPC.
	DefaultVPC []netip.Prefix
	// Addresses are the node's own addresses that the datapath has as a node's. A pod's
	// packets to them with EgressMark are for frontends that the pod may use, and for
	// nothing else.
	Addresses []netip.Addr
	// TunnelPort is the UDP port of VXLAN.
	TunnelPort uint16
	// PodGroup is the group of devices that the host ends of pods belong to, PodKinds are
	// the kernel's names of their kinds. No name of a device makes it a pod's.
	PodGroup uint32
	PodKinds []string
	// NodeDevice is the node's own interface in the default VPC.
	NodeDevice string
	// SealedDevices hand no packet to the host's stack while the datapath's programs
	// are attached; packets from them are dropped.
	SealedDevices []string
	// MarkMask selects the bits of a packet's mark that the datapath sets.
	// SharedMark, EgressMark and NodeMark are their values for a flow to a
	// shared service, for one to the outside, and for one of the default VPC,
	// which alone may reach nodes as well.
	MarkMask, SharedMark, EgressMark, NodeMark uint32
	// OpeningMark is set on the node's own packets that open a flow to a shadow: the
	// datapath accepts only the kubelet's. TunneledMark is on the node's own packets
	// that the tunnel's device has encapsulated. They are values of MarkMask's bits.
	OpeningMark, TunneledMark uint32
	// FlowsPerShadow is the number of conntrack entries that one shadow
	// address may hold through the node at a time, and one address of the default
	// VPC to the node's own address there; 0 means no limit. Apply uses a lower limit
	// if conntrack has too few entries for Pods.
	FlowsPerShadow uint32
	// Pods is how many pods the node can run; 0: the kubelet's default.
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
	s.PodKinds = slices.Sorted(slices.Values(s.PodKinds))
	s.SealedDevices = slices.Sorted(slices.Values(s.SealedDevices))
	return s
}

func (s State) validatePorts() error {
	for _, p := range s.HostPorts {
		if err := p.check(); err != nil {
			return err
		}
	}
	for i, f := range s.Frontends {
		if i > 0 && s.Frontends[i-1].Compare(f) >= 0 {
			return fmt.Errorf("port %d of a service is out of order", f.Port)
		}
	}
	return ValidateFrontends(s.Frontends)
}

// ErrInvalid is wrapped by the errors of Validate.
var ErrInvalid = errors.New("invalid state of the packet filter")

// Validate reports contradictions.
func (s State) Validate() error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

func (s State) validate() error {
	if len(s.Shadows) == 0 {
		return errors.New("no shadow range")
	}
	for _, p := range slices.Concat(s.Shadows, s.DefaultVPC) {
		if err := canonical(p); err != nil {
			return err
		}
	}
	if s.TunnelPort == 0 || s.PodGroup == 0 || len(s.PodKinds) == 0 || s.NodeDevice == "" {
		return errors.New("tunnel port, group and kinds of pod devices, and node device must be set")
	}
	for _, shadow := range s.Shadows {
		if !slices.ContainsFunc(s.NodeShadows, shadow.Contains) {
			return fmt.Errorf("the node has no shadow address in range %v", shadow)
		}
	}
	return cmp.Or(s.validatePorts(), s.validateMarks())
}

// Sound returns the state without what contradicts itself, and why that is left out: single
// ports of the node, single frontends, and ranges of the default VPC. What the configuration
// alone decides stays, and Validate reports it.
func (s State) Sound() (State, []error) {
	var left []error
	leaveOut := func(err error) bool {
		if err != nil {
			left = append(left, err)
		}
		return err != nil
	}
	s.HostPorts = slices.DeleteFunc(slices.Clone(s.HostPorts), func(p HostPort) bool { return leaveOut(p.check()) })
	s.DefaultVPC = slices.DeleteFunc(
		slices.Clone(s.DefaultVPC),
		func(p netip.Prefix) bool { return leaveOut(canonical(p)) },
	)
	s.Frontends = slices.DeleteFunc(
		slices.Clone(s.Frontends),
		func(f *Frontend) bool { return leaveOut(ValidateFrontends([]*Frontend{f})) },
	)
	slices.SortStableFunc(s.Frontends, (*Frontend).Compare)
	s.Frontends = slices.CompactFunc(s.Frontends, func(a, b *Frontend) bool {
		return a.Compare(b) == 0 && leaveOut(fmt.Errorf("port %d of a service is there twice", b.Port))
	})
	return s, left
}

// canonical rejects a range with host bits.
func canonical(p netip.Prefix) error {
	if !p.IsValid() || p != p.Masked() {
		return fmt.Errorf("range %v is not a canonical prefix", p)
	}
	return nil
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
