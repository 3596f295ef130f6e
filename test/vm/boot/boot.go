// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package boot is the work of the first program of a virtual machine, whatever the machine is for.
package boot

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// FileSystem is a file system that a machine mounts.
type FileSystem struct {
	// Kind is its type, Source the data that it shows; a kind without a source takes its own name.
	Kind, Source string
	// Where is its place, which is made.
	Where string
	// Options are the mount options of its kind.
	Options string
}

// usual returns the file systems that let programs talk to the kernel, and the file systems in
// memory that all programs expect.
func usual() []FileSystem {
	return []FileSystem{
		{Kind: "proc", Where: "/proc"},
		{Kind: "sysfs", Where: "/sys"},
		{Kind: "devtmpfs", Where: "/dev"},
		{Kind: "tmpfs", Where: "/tmp", Options: "mode=1777"},
		{Kind: "tmpfs", Where: "/run", Options: "mode=0755"},
		{Kind: "cgroup2", Where: "/sys/fs/cgroup"},
		{Kind: "bpf", Where: "/sys/fs/bpf", Options: "mode=0700"},
	}
}

// MountUsual mounts the file systems that let programs talk to the kernel, and the file systems in
// memory that all programs expect. Programs use /var/run as well as /run.
func MountUsual() error {
	for _, f := range usual() {
		if err := f.Mount(); err != nil {
			return err
		}
	}
	return errors.Join(os.MkdirAll("/var", 0o755), os.Symlink("/run", "/var/run"))
}

// Mount mounts the file system.
func (f FileSystem) Mount() error {
	if err := os.MkdirAll(f.Where, 0o755); err != nil {
		return fmt.Errorf("make a mount point: %w", err)
	}
	source := f.Source
	if source == "" {
		source = f.Kind
	}
	if err := unix.Mount(source, f.Where, f.Kind, 0, f.Options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", source, f.Where, err)
	}
	return nil
}

// Load loads the modules in files, in their order. The kernel unpacks packed files. Load skips a
// module that is there already.
func Load(files []string) error {
	for _, file := range files {
		if err := load(file); err != nil {
			return err
		}
	}
	return nil
}

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

// PowerOff turns the machine off, whose first program calls it. It returns where that is
// not possible.
func PowerOff() error {
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		return fmt.Errorf("power off: %w", err)
	}
	return nil
}
