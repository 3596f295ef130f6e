// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/tables"
)

// The inside of the package, for its own tests: these import packages that import it.
var (
	LinkPath = linkPath
	PinOver  = pinOver
	Clsact   = clsact

	AttachedTo       = attachedTo
	AttachedToCgroup = attachedToCgroup
)

// Where filters are, and how the kernel calls their qdisc.
const (
	FilterPriority = filterPriority
	FilterHandle   = filterHandle
	ClsactKind     = clsactKind
)

// Filters returns all filters of ours in the current namespace.
func Filters() (map[hook.Attachment]ebpf.ProgramID, error) {
	s, err := openSocket()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return (&filters{netlink: s}).all()
}

// IsOnNode reports whether a program is on one device of a node.
func IsOnNode(p hook.Program) bool { return places[p].node }

// ProgramID returns the id of a program that is attached from now on.
func (d *Datapath) ProgramID(p hook.Program) ebpf.ProgramID { return d.filters.programs[p].id }

// Filter returns the filter of a program.
func (d *Datapath) Filter(a hook.Attachment) *netlink.BpfFilter { return d.filters.filter(a) }

// ListFilters returns all filters on one side of a device, also filters of others.
func (d *Datapath) ListFilters(ifindex int, side uint32) ([]netlink.Filter, error) {
	return d.filters.list(ifindex, side)
}

// Attached returns where the current programs are.
func (d *Datapath) Attached() (map[hook.Attachment]struct{}, error) { return d.filters.Attached() }

// Attach attaches a program to an interface.
func (d *Datapath) Attach(a hook.Attachment) error { return d.filters.Ensure(a) }

// Settle makes a device the only one that a program of the node is on.
func (d *Datapath) Settle(a hook.Attachment) (changed bool, err error) { return d.filters.settle(a) }

// ReplaceFilters replaces the programs of all filters.
func (d *Datapath) ReplaceFilters() error { return d.filters.replaceAll() }

// LeaveNetkit takes our program from a netkit pair.
func (d *Datapath) LeaveNetkit(ifindex uint32) error { return d.filters.leaveNetkit(ifindex) }

// NoteFewVanished leaves room for one event of a device that leaves.
func (d *Datapath) NoteFewVanished() error {
	// The smallest buffer that the kernel grants holds one event.
	return unix.SetsockoptInt(d.filters.vanished.socket, unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
}

// Unapplied returns a datapath with the same maps, without a State to be applied.
func (d *Datapath) Unapplied() *Datapath { return &Datapath{kernel: d.kernel} }

// ReadBack returns the rows of the maps and devices.
func (d *Datapath) ReadBack() (*tables.Rows, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.have = nil
	have, _, err := d.current()
	return have, err
}
