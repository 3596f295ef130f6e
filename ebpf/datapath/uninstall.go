// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
)

// Uninstall takes every program from its hook, on devices from those of the
// caller's network namespace, and removes all of our pins from pinDir, whoever
// still holds them open. What is not there is no error. It fails when one of
// the links is still attached to cgroupRoot after that; other nodes' programs
// may well be, when several share a kernel.
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
	if err := removePins(linkDir(pinDir), "", detachOne); err != nil {
		return err
	}
	err := removePins(pinDir, bpf.Prefix, func(path string) error {
		if path == linkPath(pinDir, string(hook.ToUnderlay)) {
			return detachOne(path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, dir := range []string{linkDir(pinDir), pinDir} {
		err := os.Remove(dir)
		// Somebody else's files or a mount point may stay.
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("remove pin directory: %w", err)
		}
	}
	return checkDetached(cgroupRoot, detached)
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
