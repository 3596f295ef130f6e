// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf/link"

	"github.com/alioth-net/alioth/ebpf/datapath/hook"
)

// ReadHooks finds the attachments of programs, in the network namespace of the caller, without
// changing anything.
func ReadHooks(pinDir string) (hook.Attached, error) {
	s, err := openSocket()
	if err != nil {
		return hook.Attached{}, err
	}
	defer s.Close()
	found, err := (&filters{netlink: s}).all()
	if err != nil {
		return hook.Attached{}, err
	}
	var hooks hook.Attached
	for a := range found {
		hooks.Filters = append(hooks.Filters, hook.Filter{Ifindex: int(a.Ifindex), Program: a.Program.Kernel()})
	}
	slices.SortFunc(hooks.Filters, func(a, b hook.Filter) int {
		return cmp.Or(cmp.Compare(a.Ifindex, b.Ifindex), cmp.Compare(a.Program, b.Program))
	})
	for _, name := range hook.LinkNames() {
		attached, err := pinnedAndAttached(linkPath(pinDir, name))
		if err != nil {
			return hook.Attached{}, err
		}
		attached = attached ||
			slices.ContainsFunc(hooks.Filters, func(f hook.Filter) bool { return f.Program == hook.Program(name).Kernel() })
		if attached {
			hooks.Links = append(hooks.Links, name)
		}
	}
	return hooks, nil
}

// pinnedAndAttached reports whether a link is pinned and its target exists: the pin
// outlives both device and cgroup.
func pinnedAndAttached(path string) (bool, error) {
	pinned, err := link.LoadPinnedLink(path, nil)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open pinned link %s: %w", path, err)
	}
	defer pinned.Close()
	info, err := pinned.Info()
	if err != nil {
		return false, fmt.Errorf("read link %s: %w", path, err)
	}
	if tcx := info.TCX(); tcx != nil {
		return tcx.Ifindex != 0, nil
	}
	cgroup := info.Cgroup()
	return cgroup != nil && cgroup.CgroupId != 0, nil
}
