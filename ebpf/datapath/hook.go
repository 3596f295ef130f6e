// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Program names a program that is attached to a device.
type Program string

// Programs of the interfaces of pods and of the node.
const (
	programFromPod Program = "from_pod"
	programToPod   Program = "to_pod"
	// programFromNetkit is alioth_from_pod where a netkit pair runs it.
	programFromNetkit Program = "from_netkit"
)

// Programs on one device of a node each, through links where there are any.
const (
	programFromTunnel   Program = "from_tunnel"
	programFromUnderlay Program = "from_underlay"
	programToUnderlay   Program = "to_underlay"
	programFragment     Program = "fragment"
)

// Links to the cgroup root.
const (
	linkConnect4 = "connect4"
	linkConnect6 = "connect6"
	linkSendmsg4 = "sendmsg4"
	linkSendmsg6 = "sendmsg6"
	linkRecvmsg4 = "recvmsg4"
	linkRecvmsg6 = "recvmsg6"
	linkPeer4    = "getpeername4"
	linkPeer6    = "getpeername6"
)

// Kernel returns the name under which the kernel lists the program, or its filter.
func (p Program) Kernel() string {
	if p == programFromNetkit {
		p = programFromPod
	}
	return "alioth_" + string(p)
}

// Attachment is one program on one device.
type Attachment struct {
	Ifindex uint32
	Program Program
}

// Attached are the places where a node's programs are.
type Attached struct {
	// Filters are those on the devices of pods and of the node's own interface,
	// by index, then program.
	Filters []Filter
	// Links are the names of the pinned links that are attached to something,
	// or have a filter in their place where the kernel has no TCX.
	Links []string
}

// Filter is one program on one device, in a filter or of a netkit pair. Program is
// its name in the kernel.
type Filter struct {
	Ifindex int
	Program string
}

// programsOf returns the programs that the interface's device has.
func programsOf(i state.Interface) []Program {
	switch {
	case i.Node:
		return []Program{programFromPod}
	case i.Netkit:
		return []Program{programFromNetkit, programToPod}
	}
	return []Program{programFromPod, programToPod}
}

// FiltersOf returns the filters that an interface has to have.
func FiltersOf(i state.Interface) []Filter {
	var filters []Filter
	for _, p := range programsOf(i) {
		filters = append(filters, Filter{i.Ifindex, p.Kernel()})
	}
	return filters
}

// LinkNames are the pinned links that a node has to have.
func LinkNames() []string {
	onDevices := []string{
		string(programFragment), string(programFromTunnel), string(programFromUnderlay), string(programToUnderlay),
	}
	return slices.Concat(socketLinks, onDevices)
}

// socketLinks are those at the cgroup root.
var socketLinks = []string{
	linkConnect4, linkConnect6, linkSendmsg4, linkSendmsg6, linkRecvmsg4, linkRecvmsg6, linkPeer4, linkPeer6,
}
