// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Attachments are the programs of interfaces. They are in no map, and never taken
// from a device that still exists, see sequence.
const attachmentTable = table[attachment, none]("attachments")

var attachmentsTable = &descriptor{
	anyTable: attachedPrograms{attachmentTable},
	encode: func(t *tables, p part) {
		for _, i := range p.Interfaces {
			for _, program := range programsOf(i) {
				attachmentTable.of(t)[attachment{uint32(i.Ifindex), program}] = none{}
			}
		}
	},
}

// program names a program that is attached to a device.
type program string

const (
	programFromPod program = "from_pod"
	programToPod   program = "to_pod"
	// programFromNetkit is alioth_from_pod where a netkit pair runs it.
	programFromNetkit program = "from_netkit"

	// On one device of a node each, through links where there are any.
	programFromTunnel   program = "from_tunnel"
	programFromUnderlay program = "from_underlay"
	programToUnderlay   program = "to_underlay"
	programFragment     program = "fragment"
)

// attachment is one program on one interface.
type attachment struct {
	Ifindex uint32
	Program program
}

// programsOf are those that the interface's device has.
func programsOf(i state.Interface) []program {
	switch {
	case i.Node:
		return []program{programFromPod}
	case i.Netkit:
		return []program{programFromNetkit, programToPod}
	}
	return []program{programFromPod, programToPod}
}

type attachedPrograms struct{ table[attachment, none] }

// read adds nothing: what is attached no map tells, see Datapath.readAll.
func (attachedPrograms) read(*Reader, *tables) error { return nil }

// survey reports whether interfaces have other programs than they should.
func (attachedPrograms) survey(d *Datapath) (harmed bool, err error) {
	seen, err := d.filters.attached()
	if err != nil {
		return false, err
	}
	return d.compare(func(have *tables) (bool, error) {
		if sameKeys(seen, attachmentTable.of(have)) {
			return false, nil
		}
		now, err := d.filters.attached()
		return !sameKeys(now, attachmentTable.of(have)), err
	})
}

func (attachedPrograms) step(d *Datapath, op operation) error {
	a := op.Key.(attachment)
	if err := d.filters.ensure(a); err != nil {
		return &AttachError{Ifindex: int(a.Ifindex), Program: string(a.Program), Err: err}
	}
	return nil
}
