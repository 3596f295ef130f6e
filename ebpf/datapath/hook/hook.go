// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hook names the programs of a node and their places. It is pure: package
// datapath attaches programs there, cnid/inspect/verify compares.
package hook

import (
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Program names a program that is attached to a device.
type Program string

// Programs of the interfaces of pods and of the node.
const (
	FromPod Program = "from_pod"
	ToPod   Program = "to_pod"
	// FromNetkit is alioth_from_pod where a netkit pair runs it.
	FromNetkit Program = "from_netkit"
)

// Programs on one device of a node each, through links if there are any.
const (
	FromTunnel   Program = "from_tunnel"
	FromUnderlay Program = "from_underlay"
	ToUnderlay   Program = "to_underlay"
	Fragment     Program = "fragment"
)

// Links to the cgroup root.
const (
	Connect4     = "connect4"
	Connect6     = "connect6"
	Sendmsg4     = "sendmsg4"
	Sendmsg6     = "sendmsg6"
	Recvmsg4     = "recvmsg4"
	Recvmsg6     = "recvmsg6"
	Getpeername4 = "getpeername4"
	Getpeername6 = "getpeername6"
)

// Links to the cgroup of pods, which a node has while it guards a port.
const (
	Guard4 = "guard4"
	Guard6 = "guard6"
)

// Kernel returns the name under which the kernel lists the program, or its filter.
func (p Program) Kernel() string {
	if p == FromNetkit {
		p = FromPod
	}
	return "alioth_" + string(p)
}

// Attachment is one program on one device.
type Attachment struct {
	Ifindex uint32
	Program Program
}

// Attached are the places of a node's programs.
type Attached struct {
	// Filters are the filters on the devices of pods and of the node's own interface, by index,
	// then program.
	Filters []Filter
	// Links are the names of the pinned links that are attached, or have a filter in
	// their place if the kernel has no TCX.
	Links []string
}

// Filter is one program on one device, in a filter or of a netkit pair. Program is
// its name in the kernel.
type Filter struct {
	Ifindex int
	Program string
}

// ProgramsOf returns the programs that the interface's device has.
func ProgramsOf(i state.Interface) []Program {
	switch {
	case i.Node:
		return []Program{FromPod}
	case i.Netkit:
		return []Program{FromNetkit, ToPod}
	}
	return []Program{FromPod, ToPod}
}

// FiltersOf returns the filters that an interface has to have.
func FiltersOf(i state.Interface) []Filter {
	var filters []Filter
	for _, p := range ProgramsOf(i) {
		filters = append(filters, Filter{i.Ifindex, p.Kernel()})
	}
	return filters
}

// GuardLinks returns the pinned links of a node that guards a port from processes of pods.
func GuardLinks() []string { return []string{Guard4, Guard6} }

// LinkNames returns the pinned links that a node has to have.
func LinkNames() []string {
	onDevices := []string{
		string(Fragment), string(FromTunnel), string(FromUnderlay), string(ToUnderlay),
	}
	return slices.Concat(socketLinks, onDevices)
}

// socketLinks are the links at the cgroup root.
var socketLinks = []string{
	Connect4, Connect6, Sendmsg4, Sendmsg6, Recvmsg4, Recvmsg6, Getpeername4, Getpeername6,
}
