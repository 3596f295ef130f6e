// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// mount is one file system of the machine.
type mount struct{ kind, where, options string }

var mounts = []mount{
	{"proc", "/proc", ""},
	{"sysfs", "/sys", ""},
	{"devtmpfs", "/dev", ""},
	{"tmpfs", "/tmp", "mode=1777"},
	{"tmpfs", "/run", "mode=0755"},
	{"cgroup2", "/sys/fs/cgroup", ""},
	{"bpf", "/sys/fs/bpf", "mode=0700"},
}

func mountAll() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.where, 0o755); err != nil {
			return fmt.Errorf("make a mount point: %w", err)
		}
		if err := unix.Mount(m.kind, m.where, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.where, err)
		}
	}
	// Programs and tests use /var/run as well.
	return errors.Join(os.MkdirAll("/var", 0o755), os.Symlink("/run", "/var/run"))
}

// load loads a module that the kernel may have unpacked itself. One that is
// there already is fine.
func load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("load module: %w", err)
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(file, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s: %w", file, err)
	}
	return nil
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}
