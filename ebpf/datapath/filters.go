// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
)

// Places of our filters on a device. The priority is the first, except on the device
// with the tunnel's address, where it is the last, after the filters of the host's
// owner. The kernel does not choose the handle by itself, so another program's BPF
// filter of that priority gets another one.
const (
	filterPriority     = 1
	filterPriorityLast = 0xa110
	filterHandle       = 0xa110
	clsactKind         = "clsact"
)

// filterPlace is the place of a program's filter on a device.
type filterPlace struct {
	side     uint32
	priority uint16
	// node reports that the program is on one device of a node, not on interfaces.
	node bool
}

var places = map[hook.Program]filterPlace{
	hook.FromPod:      {side: netlink.HANDLE_MIN_INGRESS, priority: filterPriority},
	hook.ToPod:        {side: netlink.HANDLE_MIN_EGRESS, priority: filterPriority},
	hook.FromTunnel:   {side: netlink.HANDLE_MIN_INGRESS, priority: filterPriority, node: true},
	hook.FromUnderlay: {side: netlink.HANDLE_MIN_INGRESS, priority: filterPriorityLast, node: true},
	hook.ToUnderlay:   {side: netlink.HANDLE_MIN_EGRESS, priority: filterPriorityLast, node: true},
	hook.Fragment:     {side: netlink.HANDLE_MIN_INGRESS, priority: filterPriority, node: true},
}

// filters are the programs on pod interfaces, and on the node's devices if the kernel
// has no TCX links: BPF filters of a clsact qdisc, which stay until they or their
// device are removed. Unlike a TCX link, adding one does not wait for a grace period of
// RCU. On a netkit pair a program of the pair takes the place of from_pod, see
// netkit.go.
type filters struct {
	netlink  socket
	vanished *vanished
	programs map[hook.Program]attachable
	log      *slog.Logger
	// prepared is the index of the device that the last attachment gave its qdisc, 0
	// for none: the device's next program then needs no further request.
	prepared uint32
}

// attachable is a loaded program with its id in the kernel's lists.
type attachable struct {
	*ebpf.Program
	id ebpf.ProgramID
}

// newFilters works on the devices of the network namespace it is called in.
func newFilters(objects *bpf.AliothObjects, log *slog.Logger) (*filters, error) {
	f := &filters{programs: map[hook.Program]attachable{}, log: log}
	for name, p := range map[hook.Program]*ebpf.Program{
		hook.FromPod: objects.AliothFromPod, hook.FromNetkit: objects.AliothFromPod, hook.ToPod: objects.AliothToPod,
		hook.FromTunnel: objects.AliothFromTunnel, hook.FromUnderlay: objects.AliothFromUnderlay,
		hook.ToUnderlay: objects.AliothToUnderlay, hook.Fragment: objects.AliothFragment,
	} {
		info, err := p.Info()
		if err != nil {
			return nil, fmt.Errorf("read program %s: %w", name, err)
		}
		id, ok := info.ID()
		if !ok {
			return nil, fmt.Errorf("read program %s: the kernel tells no id", name)
		}
		f.programs[name] = attachable{p, id}
	}
	var err error
	if f.vanished, err = watchVanished(); err != nil {
		return nil, err
	}
	if f.netlink, err = openSocket(); err != nil {
		f.vanished.close()
		return nil, err
	}
	return f, nil
}

// goneDevices returns the indexes of the devices that have left since the last call.
// lost reports that there were more than the list can hold.
func (f *filters) goneDevices() (indexes map[uint32]struct{}, lost bool, err error) {
	return f.vanished.since()
}

func (f *filters) close() {
	f.netlink.Close()
	f.vanished.close()
}

func clsact(ifindex int) netlink.Qdisc {
	return &netlink.GenericQdisc{QdiscType: clsactKind, QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

func (f *filters) filter(a hook.Attachment) *netlink.BpfFilter {
	return &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: int(a.Ifindex), Parent: places[a.Program].side,
			Priority: places[a.Program].priority, Handle: filterHandle, Protocol: unix.ETH_P_ALL,
		},
		Fd: f.programs[a.Program].FD(), Name: a.Program.Kernel(), DirectAction: true,
	}
}

// Ensure attaches a program to an interface, or replaces the program of an existing
// filter by it. It returns an AttachError.
func (f *filters) Ensure(a hook.Attachment) error {
	if err := f.attach(a); err != nil {
		return &AttachError{Ifindex: int(a.Ifindex), Program: string(a.Program), Err: err}
	}
	return nil
}

// attach attaches a program to an interface, or replaces the program of an existing
// filter by it. Another program's filter in its place is an error.
func (f *filters) attach(a hook.Attachment) error {
	if a.Program == hook.FromNetkit {
		return f.ensureNetkit(a)
	}
	err := f.add(a)
	if !errors.Is(err, unix.EEXIST) {
		if err != nil {
			return err
		}
		f.log.Debug("attached program", "program", a.Program, "ifindex", a.Ifindex)
		return nil
	}
	list, err := f.list(int(a.Ifindex), places[a.Program].side)
	if err != nil {
		return err
	}
	for _, other := range list {
		if isIn(other, places[a.Program]) && !isOurs(other, a.Program) {
			return fmt.Errorf(
				"add filter: priority %d, handle %#x holds one that is not Alioth's; remove it with 'tc filter del'",
				other.Attrs().Priority,
				filterHandle,
			)
		}
	}
	return f.replace(a)
}

// add adds the filter of a program, after the qdisc. If its place is taken, the error
// is unix.EEXIST.
func (f *filters) add(a hook.Attachment) error {
	prepared := f.prepared == a.Ifindex
	f.prepared = 0
	if prepared {
		// EINVAL: the qdisc is gone since.
		if err := f.addFilter(a); !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	// For an existing clsact qdisc this changes nothing; for another qdisc it fails,
	// where an addition would only report that one exists.
	if err := f.netlink.QdiscReplace(clsact(int(a.Ifindex))); err != nil {
		return fmt.Errorf("add clsact qdisc: %w", err)
	}
	f.prepared = a.Ifindex
	return f.addFilter(a)
}

func (f *filters) addFilter(a hook.Attachment) error {
	if err := f.netlink.FilterAdd(f.filter(a)); err != nil {
		return fmt.Errorf("add filter: %w", err)
	}
	return nil
}

// settle makes a the only place of a program of the node, none if its device is 0, and
// reports whether a program had to be attached.
func (f *filters) settle(a hook.Attachment) (changed bool, err error) {
	found, err := f.all()
	if err != nil {
		return false, err
	}
	if a.Ifindex != 0 && found[a] != f.programs[a.Program].id {
		if err := f.attach(a); err != nil {
			return false, err
		}
		changed = true
	}
	for other := range found {
		if other.Program != a.Program || other == a {
			continue
		}
		if err := f.netlink.FilterDel(f.filter(other)); err != nil && !errors.Is(err, unix.ENODEV) &&
			!errors.Is(err, unix.ENOENT) {
			return changed, fmt.Errorf("delete filter of device %d: %w", other.Ifindex, err)
		}
	}
	return changed, nil
}

// replace puts the current program into a filter in one step: no packet passes
// unfiltered.
func (f *filters) replace(a hook.Attachment) error {
	if a.Program == hook.FromNetkit {
		return f.ensureNetkit(a)
	}
	if err := f.netlink.FilterReplace(f.filter(a)); err != nil {
		return fmt.Errorf("replace filter: %w", err)
	}
	return nil
}

// replaceAll gives the current programs to every filter of ours.
func (f *filters) replaceAll() error {
	found, err := f.all()
	if err != nil {
		return err
	}
	for a := range found {
		// The device can have vanished since; then there is nothing to replace.
		if err := f.replace(a); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("device %d, %s: %w", a.Ifindex, a.Program, err)
		}
	}
	return nil
}

// Attached returns the interfaces with the current programs.
func (f *filters) Attached() (map[hook.Attachment]struct{}, error) {
	found, err := f.all()
	if err != nil {
		return nil, err
	}
	current := map[hook.Attachment]struct{}{}
	for a, id := range found {
		if id == f.programs[a.Program].id && !places[a.Program].node {
			current[a] = struct{}{}
		}
	}
	return current, nil
}

// all examines every device and returns our filters with the ids of their programs, of
// any version.
func (f *filters) all() (map[hook.Attachment]ebpf.ProgramID, error) {
	devices, err := f.clsactDevices()
	if err != nil {
		return nil, err
	}
	found := map[hook.Attachment]ebpf.ProgramID{}
	for _, ifindex := range devices {
		for _, side := range sides {
			list, err := f.list(ifindex, side)
			if err != nil {
				return nil, err
			}
			for _, filter := range list {
				if p, ok := ownProgram(filter, side); ok {
					found[hook.Attachment{Ifindex: uint32(ifindex), Program: p}] = ebpf.ProgramID(filter.(*netlink.BpfFilter).Id)
				}
			}
		}
		// A pair of ours has a clsact qdisc for alioth_to_pod.
		id, err := f.onNetkit(uint32(ifindex))
		if err != nil {
			return nil, err
		}
		if id != 0 {
			found[hook.Attachment{Ifindex: uint32(ifindex), Program: hook.FromNetkit}] = id
		}
	}
	return found, nil
}

// clsactDevices returns the indexes of the devices that can have filters of ours.
func (f *filters) clsactDevices() ([]int, error) {
	qdiscs, err := f.netlink.QdiscList(nil)
	if err != nil {
		return nil, fmt.Errorf("list qdiscs: %w", err)
	}
	var devices []int
	for _, q := range qdiscs {
		if q.Type() == clsactKind {
			devices = append(devices, q.Attrs().LinkIndex)
		}
	}
	return devices, nil
}

// list returns the filters on one side of a device; none if the device is gone.
func (f *filters) list(ifindex int, side uint32) ([]netlink.Filter, error) {
	device := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: ifindex}}
	list, err := f.netlink.FilterList(device, side)
	if err != nil {
		return nil, fmt.Errorf("list filters of device %d: %w", ifindex, err)
	}
	return list, nil
}

// sides are the sides of a clsact qdisc.
var sides = []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS}

// isIn reports whether a filter that is listed on the place's side is in it.
func isIn(f netlink.Filter, p filterPlace) bool {
	return f.Attrs().Priority == p.priority && f.Attrs().Handle == filterHandle
}

// isOurs reports whether a filter that is listed on p's side attaches p.
func isOurs(f netlink.Filter, p hook.Program) bool {
	bpf, ok := f.(*netlink.BpfFilter)
	return ok && isIn(f, places[p]) && bpf.Name == p.Kernel()
}

// ownProgram returns which of our programs a filter attaches that is listed on a side.
func ownProgram(f netlink.Filter, side uint32) (hook.Program, bool) {
	for p, place := range places {
		if place.side == side && isOurs(f, p) {
			return p, true
		}
	}
	return "", false
}

// remove removes our filters from every device of this namespace. A clsact qdisc is
// removed with them unless it has filters of others.
func (f *filters) remove() error {
	all, err := f.netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list devices: %w", err)
	}
	for _, device := range all {
		ifindex := device.Attrs().Index
		if err := f.leaveNetkit(uint32(ifindex)); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("device %d: %w", ifindex, err)
		}
	}
	devices, err := f.clsactDevices()
	if err != nil {
		return err
	}
	for _, ifindex := range devices {
		if err := f.removeFrom(ifindex); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("device %d: %w", ifindex, err)
		}
	}
	return nil
}

func (f *filters) removeFrom(ifindex int) error {
	var ours []netlink.Filter
	shared := false
	for _, side := range sides {
		list, err := f.list(ifindex, side)
		if err != nil {
			return err
		}
		for _, filter := range list {
			if _, ok := ownProgram(filter, side); ok {
				ours = append(ours, filter)
			} else {
				shared = true
			}
		}
	}
	if len(ours) > 0 && !shared {
		if err := f.netlink.QdiscDel(clsact(ifindex)); err != nil {
			return fmt.Errorf("delete clsact qdisc: %w", err)
		}
		return nil
	}
	for _, filter := range ours {
		if err := f.netlink.FilterDel(filter); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("delete filter: %w", err)
		}
	}
	return nil
}

// AttachError reports that a program could not be attached to an interface, in most
// cases because its device is gone. The rest of the State has been applied; the error
// may be joined with others of its kind.
type AttachError struct {
	Ifindex int
	Program string
	Err     error
}

// Error describes the failed attachment and its reason.
func (e *AttachError) Error() string {
	return fmt.Sprintf("attach %s to device %d: %v", e.Program, e.Ifindex, e.Err)
}

// Unwrap returns the cause.
func (e *AttachError) Unwrap() error { return e.Err }
