// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/hook"
)

// ensureNetkit makes the program the only one of ours that a netkit pair runs while its
// other end sends. It is attached directly and not by a link: so it stays with the
// device, as a filter does, without a pin for each pod.
func (f *filters) ensureNetkit(a hook.Attachment) error {
	old, err := f.onNetkit(a.Ifindex)
	if err != nil || old == f.programs[a.Program].id {
		return err
	}
	options := link.RawAttachProgramOptions{
		Target: int(a.Ifindex), Program: f.programs[a.Program].Program, Attach: ebpf.AttachNetkitPeer, Anchor: link.Head(),
	}
	if old != 0 {
		before, err := ebpf.NewProgramFromID(old)
		if err != nil {
			return fmt.Errorf("open program %d: %w", old, err)
		}
		defer before.Close()
		// In its place and in one step: no packet passes unfiltered.
		options.Anchor = link.ReplaceProgram(before)
	}
	err = link.RawAttachProgram(options)
	if errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("it is no netkit device: %w", err)
	}
	if err != nil {
		return fmt.Errorf("attach to netkit: %w", err)
	}
	f.log.Debug("attached program", "program", a.Program, "ifindex", a.Ifindex)
	return nil
}

// onNetkit returns the id of our program, of any version, on the pair of a primary device; 0
// without such a program.
func (f *filters) onNetkit(ifindex uint32) (ebpf.ProgramID, error) {
	found, err := link.QueryPrograms(link.QueryOptions{Target: int(ifindex), Attach: ebpf.AttachNetkitPeer})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) || // of this kernel
		errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENODEV) { // of this device
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list programs of device %d: %w", ifindex, err)
	}
	for _, p := range found.Programs {
		ours, err := f.isFromPod(p.ID)
		if err != nil {
			return 0, err
		}
		if ours {
			return p.ID, nil
		}
	}
	return 0, nil
}

// isFromPod reports whether a program is alioth_from_pod of any version.
func (f *filters) isFromPod(id ebpf.ProgramID) (bool, error) {
	if id == f.programs[hook.FromNetkit].id {
		return true, nil
	}
	p, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // detached since
	}
	if err != nil {
		return false, fmt.Errorf("open program %d: %w", id, err)
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return false, fmt.Errorf("read program %d: %w", id, err)
	}
	return info.Name == hook.FromNetkit.Kernel(), nil
}

// leaveNetkit removes our program from such a device.
func (f *filters) leaveNetkit(ifindex uint32) error {
	id, err := f.onNetkit(ifindex)
	if err != nil || id == 0 {
		return err
	}
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return fmt.Errorf("open program %d: %w", id, err)
	}
	defer p.Close()
	err = link.RawDetachProgram(
		link.RawDetachProgramOptions{Target: int(ifindex), Program: p, Attach: ebpf.AttachNetkitPeer},
	)
	if err != nil {
		return fmt.Errorf("detach from netkit: %w", err)
	}
	return nil
}
