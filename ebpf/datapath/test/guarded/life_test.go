// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package guarded_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest"
	"github.com/alioth-net/alioth/ebpf/datapath/bpftest/wayin"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
)

// guards returns the number of programs at the cgroup of pods.
func guards(t *testing.T, n *node) (count int) {
	t.Helper()
	dir, err := os.Open(n.pods)
	bpftest.Must(t, err)
	defer dir.Close()
	for _, hook := range []ebpf.AttachType{ebpf.AttachCGroupInet4Connect, ebpf.AttachCGroupInet6Connect} {
		found, err := link.QueryPrograms(link.QueryOptions{Target: int(dir.Fd()), Attach: hook})
		bpftest.Must(t, err)
		count += len(found.Programs)
	}
	return count
}

// linksOfGuards returns the ids of the pinned links.
func linksOfGuards(t *testing.T, n *node) (ids []link.ID) {
	t.Helper()
	for _, name := range hook.GuardLinks() {
		pinned, err := link.LoadPinnedLink(filepath.Join(n.Config.PinDir, bpf.Prefix+name), nil)
		bpftest.Must(t, err)
		info, err := pinned.Info()
		bpftest.Must(t, errors.Join(err, pinned.Close()))
		ids = append(ids, info.ID)
	}
	return ids
}

func TestGuard_DaemonAway_Stays(t *testing.T) {
	n := newNode(t)
	before := linksOfGuards(t, n)
	if got := guards(t, n); got != 2 {
		t.Fatalf("%d programs at the cgroup of pods, want two", got)
	}
	bpftest.Must(t, n.Close())
	wantClosed(t, n, "without a daemon")
	bpftest.Open(t, n.Config)
	wantClosed(t, n, "with the next daemon")
	if after := linksOfGuards(t, n); !slices.Equal(before, after) {
		t.Errorf("the next daemon has the links %v, want those that were there: %v", after, before)
	}
}

func TestUninstall_DaemonHoldsGuard_GuardRemoved(t *testing.T) {
	n := newNode(t)
	bpftest.Must(t, datapath.Uninstall(n.Config.PinDir, n.Config.CgroupRoot))
	if left := guards(t, n); left > 0 {
		t.Errorf("%d programs are left at the cgroup of pods", left)
	}
	if _, err := os.Stat(n.Config.PinDir); !os.IsNotExist(err) {
		t.Errorf("the directory of pins: %v", err)
	}
	bpftest.Must(t, wayin.Connect.Try(t, n.pod, netip.AddrPortFrom(loopbacks[0], port)))
}

func TestDaemon_NoGuardedPort_GuardRemoved(t *testing.T) {
	n := newNode(t)
	bpftest.Must(t, n.Close())
	open := n.Config
	open.PodCgroup, open.GuardedPort = "", 0
	bpftest.Open(t, open)
	if left := guards(t, n); left > 0 {
		t.Errorf("%d programs are left at the cgroup of pods", left)
	}
}

func TestGuard_PodCgroupReturns_Returns(t *testing.T) {
	n := newNode(t)
	recheck := func() {
		t.Helper()
		n.Recheck()
		bpftest.Must(t, n.Apply(n.State()))
	}
	bpftest.Must(t, os.Remove(n.pod))
	bpftest.Must(t, os.Remove(n.pods))
	recheck() // the rest of the node does not suffer
	bpftest.Must(t, os.Mkdir(n.pods, 0o755))
	bpftest.Must(t, os.Mkdir(n.pod, 0o755))
	recheck()
	wantClosed(t, n, "with a new cgroup")
}
