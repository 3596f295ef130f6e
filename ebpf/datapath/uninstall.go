// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

// Uninstall removes every program from its hook, on devices from the hooks of the caller's
// network namespace. It removes all of our pins from pinDir, even if other processes hold them
// open. Missing objects are not an error. It fails if one of the links is still attached to
// cgroupRoot after the removal. Programs of other nodes may well be attached, if several nodes
// share a kernel.
func Uninstall(pinDir, cgroupRoot string) error {
	if err := removeFilters(); err != nil {
		return err
	}
	var detached []link.ID
	detachOne := func(path string) error {
		id, err := detach(path)
		detached = append(detached, id)
		return err
	}
	if err := removePins(programs.LinkDir(pinDir), "", detachOne); err != nil {
		return err
	}
	err := removePins(pinDir, bpf.Prefix, func(path string) error {
		if slices.Contains(besideMaps(), strings.TrimPrefix(filepath.Base(path), bpf.Prefix)) {
			return detachOne(path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := removePinDirs(pinDir); err != nil {
		return err
	}
	return checkDetached(cgroupRoot, detached)
}

// removePinDirs removes the empty directories of pins. Files of others or a mount point
// may stay.
func removePinDirs(pinDir string) error {
	for _, dir := range []string{programs.LinkDir(pinDir), pinDir} {
		err := os.Remove(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("remove pin directory: %w", err)
		}
	}
	return nil
}

// removePins removes the files in dir whose names start with prefix, each
// after before has been called with its path.
func removePins(dir, prefix string, before func(path string) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list pins: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if err := before(path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove pin: %w", err)
		}
	}
	return nil
}

// removeFilters removes the programs from all devices of the caller's network
// namespace.
func removeFilters() error {
	s, err := openSocket()
	if err != nil {
		return err
	}
	defer s.Close()
	if err := (&filters{netlink: s}).remove(); err != nil {
		return fmt.Errorf("take programs from interfaces: %w", err)
	}
	return nil
}

// detach ends a link even while other processes hold it, and returns its id. A link
// whose device is gone has ended already.
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

// checkDetached fails if one of the links is attached to the cgroup.
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
