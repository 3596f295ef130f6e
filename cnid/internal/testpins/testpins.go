// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testpins gives tests a place for a datapath on the real kernel.
package testpins

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/lifecycle/install"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// New returns a directory that the datapath of a namespace may pin its objects in, and a cgroup
// for its programs. The end of the test removes them with all pins.
func New(t testing.TB, space ns.NetNS) (pinDir, cgroup string) {
	t.Helper()
	cgroup = newCgroup(t)
	mount := t.TempDir()
	if err := unix.Mount("bpf", mount, "bpf", 0, ""); err != nil {
		t.Fatalf("mount a bpf file system: %v", err)
	}
	pinDir = filepath.Join(mount, "alioth")
	t.Cleanup(func() {
		// Uninstall handles the namespace's devices, and not the devices of this host.
		uninstall := func(ns.NetNS) error { return datapath.Uninstall(pinDir, cgroup) }
		if err := errors.Join(space.Do(uninstall), unix.Unmount(mount, 0)); err != nil {
			t.Errorf("clean up pinned objects: %v", err)
		}
	})
	return pinDir, cgroup
}

func newCgroup(t testing.TB) string {
	t.Helper()
	root, err := install.CgroupRoot("")
	if err != nil {
		t.Skipf("no cgroup2: %v", err)
	}
	dir, err := os.MkdirTemp(root, "alioth-cnid-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Errorf("remove cgroup: %v", err)
		}
	})
	return dir
}
