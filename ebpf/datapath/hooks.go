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
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Hooks are the places where a node's programs are attached.
type Hooks struct {
	// Filters are those on the devices of pods and of the node's own interface,
	// by index, then program.
	Filters []Filter
	// Links are the names of the pinned links that are attached to something,
	// or have a filter in their place where the kernel has no TCX.
	Links []string
}

// Filter is one program on one device, in a filter or of a netkit pair.
type Filter struct {
	Ifindex int
	Program string
}

// FiltersOf returns the filters that an interface has to have.
func FiltersOf(i state.Interface) []Filter {
	var filters []Filter
	for _, p := range programsOf(i) {
		filters = append(filters, Filter{i.Ifindex, filterName(p)})
	}
	return filters
}

// LinkNames are the pinned links that a node has to have.
func LinkNames() []string {
	return append(slices.Clone(socketLinks), linkFragment, linkFromTunnel, linkFromUnderlay, linkToUnderlay)
}

// ReadHooks looks where programs are attached, in the network namespace that it
// is called in, without changing anything.
func ReadHooks(pinDir string) (Hooks, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return Hooks{}, fmt.Errorf("open netlink socket: %w", err)
	}
	defer handle.Close()
	found, err := (&filters{netlink: handle}).all()
	if err != nil {
		return Hooks{}, err
	}
	var hooks Hooks
	for a := range found {
		hooks.Filters = append(hooks.Filters, Filter{int(a.Ifindex), filterName(a.Program)})
	}
	slices.SortFunc(hooks.Filters, func(a, b Filter) int {
		return cmp.Or(cmp.Compare(a.Ifindex, b.Ifindex), cmp.Compare(a.Program, b.Program))
	})
	for _, name := range LinkNames() {
		attached, err := pinnedAndAttached(linkPath(pinDir, name))
		if err != nil {
			return Hooks{}, err
		}
		attached = attached || slices.ContainsFunc(hooks.Filters, func(f Filter) bool { return f.Program == filterName(program(name)) })
		if attached {
			hooks.Links = append(hooks.Links, name)
		}
	}
	return hooks, nil
}

// pinnedAndAttached tells whether a link is pinned and its target exists: the
// pin outlives both device and cgroup.
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
