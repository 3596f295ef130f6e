// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// removeFilters takes the programs from all devices of the caller's network namespace.
func removeFilters() error {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	defer handle.Close()
	if err := (&filters{netlink: handle}).remove(); err != nil {
		return fmt.Errorf("take programs from interfaces: %w", err)
	}
	return nil
}

// detach ends a link even while other processes hold it, and returns its id. A
// link whose device is gone has ended already.
func detach(path string) (link.ID, error) {
	lnk, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return 0, fmt.Errorf("open pinned link %s: %w", path, err)
	}
	defer lnk.Close()
	info, err := lnk.Info()
	if err != nil {
		return 0, fmt.Errorf("read link %s: %w", path, err)
	}
	if err := lnk.Detach(); err != nil && !errors.Is(err, unix.ENOLINK) {
		return 0, fmt.Errorf("detach %s: %w", path, err)
	}
	return info.ID, nil
}

// checkDetached fails when one of the links is attached to the cgroup.
func checkDetached(root string, links []link.ID) error {
	dir, err := os.Open(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open cgroup: %w", err)
	}
	defer dir.Close()
	for _, hook := range []ebpf.AttachType{ebpf.AttachCGroupInet4Connect, ebpf.AttachCGroupInet6Connect} {
		found, err := link.QueryPrograms(link.QueryOptions{Target: int(dir.Fd()), Attach: hook})
		if err != nil {
			return fmt.Errorf("list programs of cgroup %s: %w", root, err)
		}
		for _, p := range found.Programs {
			if id, ok := p.LinkID(); ok && slices.Contains(links, id) {
				return fmt.Errorf("link %d is still attached to cgroup %s", id, root)
			}
		}
	}
	return nil
}
