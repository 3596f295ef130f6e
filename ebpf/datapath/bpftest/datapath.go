// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"bufio"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/features"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

// MountBPF mounts a bpf file system that belongs to the test.
func MountBPF(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, "mode=0700"); err != nil {
		t.Fatalf("mount bpf file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount bpf file system: %v", err)
		}
	})
	return filepath.Join(dir, "alioth")
}

// ChildCgroup makes a cgroup2 directory that belongs to the test.
func ChildCgroup(t testing.TB) string {
	t.Helper()
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || fields[2] != "cgroup2" {
			continue
		}
		dir, err := os.MkdirTemp(fields[1], "alioth-ebpf-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("remove cgroup: %v", err)
			}
		})
		return dir
	}
	t.Skip("missing feature: a writable cgroup2 mount")
	return ""
}

// PopsIPv6 reports whether a program can take an outer IPv4 header off an IPv6 packet;
// where it can't, the tunnel's device does.
func PopsIPv6(t testing.TB) bool {
	t.Helper()
	version, err := features.LinuxVersionCode()
	Must(t, err)
	return version >= 6<<16|3<<8
}

// testLog sends the datapath's log to the test's.
func testLog(t testing.TB) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// Connections is the size of the table of flows in tests, one size for all: programs that are
// loaded with another size can't be handed on.
const Connections = 4096

// Datapath is a datapath with the programs that it holds.
type Datapath struct {
	*datapath.Datapath
	Objects *bpf.AliothObjects
	Config  programs.Config
}

// Open opens a datapath that is taken down with the test.
func Open(t testing.TB, cfg programs.Config) *Datapath {
	t.Helper()
	d, err := OpenOnce(t, cfg)
	if err != nil {
		t.Fatalf("open datapath: %v", err)
	}
	takeDown(t, d)
	return d
}

// OpenOnce opens a datapath that is taken down elsewhere.
func OpenOnce(t testing.TB, cfg programs.Config) (*Datapath, error) {
	t.Helper()
	loaded, err := programs.Load(cfg)
	if err != nil {
		return nil, err
	}
	d, err := datapath.Open(loaded, testLog(t))
	if err != nil {
		return nil, err
	}
	return &Datapath{d, loaded.Objects, loaded.Config}, nil
}

// takeDown ends a datapath with the test, in the namespace that it is opened in.
func takeDown(t testing.TB, d *Datapath) {
	t.Helper()
	ns, err := netns.Get()
	Must(t, err)
	t.Cleanup(func() {
		defer ns.Close()
		d.Close()
		In(t, ns, func() {
			if err := datapath.Uninstall(d.Config.PinDir, d.Config.CgroupRoot); err != nil {
				t.Errorf("uninstall datapath: %v", err)
			}
		})
	})
}
