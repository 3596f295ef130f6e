// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/cluster/guest"
	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/vm/boot"
)

// setUp makes a node of a machine that has just started.
func setUp(plan guest.Plan) error {
	for _, step := range []func(guest.Plan) error{
		makeRoot, mountAll, loadModules, nameMachine, connect, mountShare, makeFolders, makeGroups, linkBusybox,
	} {
		if err := step(plan); err != nil {
			return err
		}
	}
	return nil
}

// makeRoot mounts the root again: containers change theirs by pivot_root(2), which is
// not possible below the root that the kernel starts with.
func makeRoot(guest.Plan) error {
	const fresh = "/.root"
	if err := os.MkdirAll(fresh, 0o755); err != nil {
		return fmt.Errorf("make a root: %w", err)
	}
	if err := unix.Mount("/", fresh, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("make a root: %w", err)
	}
	err := errors.Join(unix.Chdir(fresh), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/"))
	if err != nil {
		return fmt.Errorf("change to the new root: %w", err)
	}
	return nil
}

func mountAll(guest.Plan) error {
	if err := boot.MountUsual(); err != nil {
		return err
	}
	for _, f := range []boot.FileSystem{
		{Kind: "devpts", Where: "/dev/pts", Options: "ptmxmode=0666,mode=0620,gid=5"},
		{Kind: "tmpfs", Where: "/dev/shm", Options: "mode=1777"},
	} {
		if err := f.Mount(); err != nil {
			return err
		}
	}
	// Pods with mount propagation see later mounts of the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts: %w", err)
	}
	return nil
}

func loadModules(plan guest.Plan) error { return boot.Load(plan.Modules) }

func nameMachine(plan guest.Plan) error {
	if err := unix.Sethostname([]byte(plan.Name())); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	return nil
}

func connect(plan guest.Plan) error { return plan.Topology.ConfigureGuest(plan.Index) }

// mountShare mounts the lab's folder at its own place.
func mountShare(plan guest.Plan) error {
	share := boot.FileSystem{
		Kind:    "9p",
		Source:  guest.ShareTag,
		Where:   plan.Share,
		Options: "trans=virtio,version=9p2000.L,msize=524288",
	}
	return share.Mount()
}

// makeFolders makes the folders that nodes have, some of them in memory: overlayfs needs a file
// system of that kind, and a kubelet needs one of a given size.
func makeFolders(plan guest.Plan) error {
	for _, dir := range plan.Private {
		if err := (boot.FileSystem{Kind: "tmpfs", Where: dir, Options: "mode=0755"}).Mount(); err != nil {
			return err
		}
	}
	for _, dir := range append(node.MountPoints(), "/run/netns", "/run/lock", "/run/containerd", "/root", "/var/tmp", "/bin", "/sbin", "/usr/bin", "/usr/sbin") {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
	}
	return nil
}

func makeGroups(plan guest.Plan) error {
	mounts, err := host.Mounts()
	if err != nil {
		return err
	}
	return host.FindCgroups(mounts).Create(plan.Name())
}

func linkBusybox(guest.Plan) error {
	out, err := exec.Command("busybox", "--install", "-s").CombinedOutput()
	if err != nil {
		return fmt.Errorf("install busybox: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
