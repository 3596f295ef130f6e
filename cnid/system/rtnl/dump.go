// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Attempts limits how often Complete asks for one list.
const Attempts = 10

// Complete returns the list of a netlink dump. A dump takes several messages. If the kernel's
// table changes between two of them, the list may lack an object or have it twice, and the
// kernel marks the dump as interrupted (NLM_F_DUMP_INTR, netlink(7)). Complete then repeats the
// dump, and also if a signal interrupted it. After Attempts dumps it returns the last list with
// its error.
func Complete[T any](dump func() ([]T, error)) (list []T, err error) {
	for range Attempts {
		list, err = dump()
		if !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return list, err
}
