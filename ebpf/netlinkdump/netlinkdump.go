// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netlinkdump gets complete lists from the kernel. A netlink dump takes several
// messages. If the kernel's table changes between two of them, the list may lack an object
// or have it twice, and the kernel marks the dump as interrupted (NLM_F_DUMP_INTR,
// netlink(7)).
package netlinkdump

import (
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Attempts limits how often Complete asks for one list.
const Attempts = 10

// Complete returns the list of a dump, and repeats the dump if the kernel's table changed
// meanwhile or a signal interrupted it. After Attempts dumps it returns the last result
// with its error.
func Complete[T any](dump func() ([]T, error)) (list []T, err error) {
	for range Attempts {
		list, err = dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return list, err
}
