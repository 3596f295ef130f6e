// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"maps"

	"github.com/alioth-net/alioth/ebpf/datapath/hook"
)

// Attachments are the programs of interfaces. They are in no map, and are never removed
// from a device that still exists, see sequence.
const attachmentTable = table[hook.Attachment, none]("attachments")

var attachmentsTable = &descriptor{
	anyTable: attachedPrograms{attachmentTable},
	encode: func(t *Rows, p part) {
		for _, i := range p.Interfaces {
			for _, program := range hook.ProgramsOf(i) {
				attachmentTable.of(t)[hook.Attachment{Ifindex: uint32(i.Ifindex), Program: program}] = none{}
			}
		}
	},
}

type attachedPrograms struct{ table[hook.Attachment, none] }

// read adds nothing for readers of maps.
func (attachedPrograms) read(k *Kernel, t *Rows) error {
	if k.Programs == nil {
		return nil
	}
	attached, err := k.Programs.Attached()
	maps.Copy(attachmentTable.of(t), attached)
	return err
}

// survey reports whether interfaces have other programs than wanted.
func (attachedPrograms) survey(k *Kernel, compare Compare) (harmed bool, err error) {
	seen, err := k.Programs.Attached()
	if err != nil {
		return false, err
	}
	return compare(func(have *Rows) (bool, error) {
		if sameKeys(seen, attachmentTable.of(have)) {
			return false, nil
		}
		now, err := k.Programs.Attached()
		return !sameKeys(now, attachmentTable.of(have)), err
	})
}

// step returns the device's error as it is: a failed attachment does not stop a plan.
func (attachedPrograms) step(k *Kernel, op Operation) error {
	return k.Programs.Ensure(op.Key.(hook.Attachment))
}
