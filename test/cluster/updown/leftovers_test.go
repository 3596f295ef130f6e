// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package updown

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/system/rtnl"
	"github.com/alioth-net/alioth/test/cluster/host"
	"github.com/alioth-net/alioth/test/cluster/node"
	"github.com/alioth-net/alioth/test/cluster/underlay"
)

// traces finds what a lab puts on the host. Others use the machine at the same
// time, so it goes by names, cgroups and namespaces that are the lab's alone.
type traces struct {
	lab string
	dir string
	// namespaces are the network and mount namespaces of the lab by inode.
	// They are held open: the kernel gives a freed inode to the next one.
	namespaces map[uint64]*os.File
}

// learn notes the namespaces of every process in the lab's cgroups; to be
// called while the lab is up.
func (tr *traces) learn(t *testing.T) {
	t.Helper()
	own := map[uint64]bool{}
	for _, kind := range []string{"net", "mnt"} {
		inode, _ := inodeOf(filepath.Join("/proc/self/ns", kind))
		own[inode] = true
	}
	for _, pid := range pids(t) {
		if !tr.inCgroup(pid) {
			continue
		}
		for _, kind := range []string{"net", "mnt"} {
			tr.hold(fmt.Sprintf("/proc/%d/ns/%s", pid, kind), own)
		}
	}
	if len(tr.namespaces) == 0 {
		t.Fatal("the lab has no namespaces: the search for leftovers would find nothing")
	}
	found := strings.Join(tr.find(t), "\n")
	for _, kind := range []string{"process ", "mount ", "link ", "file ", "cgroup "} {
		if !strings.Contains("\n"+found, "\n"+kind) {
			t.Errorf("no %swas found while the lab is up: the search would miss leftovers", kind)
		}
	}
}

// hold opens a namespace unless it is one of the test's own.
func (tr *traces) hold(path string, own map[uint64]bool) {
	file, err := os.Open(path)
	if err != nil {
		return // the process has ended
	}
	inode, ok := inodeOf(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if !ok || own[inode] || tr.namespaces[inode] != nil {
		file.Close()
		return
	}
	tr.namespaces[inode] = file
}

// release lets go of the namespaces, which would otherwise stay for the test.
func (tr *traces) release() {
	for _, file := range tr.namespaces {
		file.Close()
	}
	clear(tr.namespaces)
}

// find describes everything of the lab that exists on the host.
func (tr *traces) find(t *testing.T) []string {
	t.Helper()
	found := slices.Concat(tr.processes(t), tr.mounts(t), tr.links(t), tr.files(t), tr.cgroups(t))
	slices.Sort(found)
	return found
}

func (tr *traces) processes(t *testing.T) (found []string) {
	t.Helper()
	for _, pid := range pids(t) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(status), ") Z ") {
			continue // gone, or waiting for its parent only
		}
		if tr.inCgroup(pid) || tr.inNamespace(pid) {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			found = append(found, fmt.Sprintf("process %d: %.80q", pid, cmdline))
		}
	}
	return found
}

func (tr *traces) inCgroup(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && strings.Contains(string(raw), ":/"+tr.lab+"-node")
}

func (tr *traces) inNamespace(pid int) bool {
	for _, kind := range []string{"net", "mnt"} {
		if inode, ok := inodeOf(fmt.Sprintf("/proc/%d/ns/%s", pid, kind)); ok && tr.namespaces[inode] != nil {
			return true
		}
	}
	return false
}

func (tr *traces) mounts(t *testing.T) (found []string) {
	t.Helper()
	mounts, err := host.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mounts {
		if strings.Contains(m.Point, tr.lab) || strings.HasPrefix(m.Point, tr.dir) {
			found = append(found, "mount "+m.Point)
		}
	}
	return found
}

func (tr *traces) links(t *testing.T) (found []string) {
	t.Helper()
	links, err := rtnl.Complete(netlink.LinkList)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, tr.lab) {
			found = append(found, "link "+l.Attrs().Name)
		}
	}
	return found
}

// files are named namespaces, mount points and folders that a component might
// make by default, and what is in the lab's folder.
func (tr *traces) files(t *testing.T) []string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	patterns := []string{
		underlay.NetNSPath(tr.lab + "*"), "/usr/libexec/kubernetes", "/opt/containerd", "/opt/nri",
		"/var/lib/containerd", "/var/lib/etcd/member", "/run/containerd", "/run/kubernetes", "/var/run/kubernetes",
		filepath.Join(home, ".kube"), filepath.Join(tr.dir, "*"),
	}
	return existing(t, patterns)
}

// shared are files that all labs of the host have in common.
func shared(t *testing.T) []string {
	t.Helper()
	return existing(t, append(node.MountPoints(), "/run/alioth-labs.json"))
}

func existing(t *testing.T, patterns []string) (found []string) {
	t.Helper()
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			found = append(found, "file "+path)
		}
	}
	return found
}

// otherLabs counts labs besides the tested one, which share mount points.
func otherLabs(t *testing.T) (n int) {
	t.Helper()
	switches, err := filepath.Glob(underlay.NetNSPath("*-switch"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range switches {
		if filepath.Base(path) != labName+"-switch" {
			n++
		}
	}
	return n
}

func (tr *traces) cgroups(t *testing.T) (found []string) {
	t.Helper()
	mounts, err := host.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range host.FindCgroups(mounts).Roots() {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), tr.lab) {
				found = append(found, "cgroup "+path)
			}
			return nil // groups of others come and go meanwhile
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// socketHooks counts programs attached at the root of cgroup2, which belongs
// to the whole machine.
func socketHooks(t *testing.T) int {
	t.Helper()
	mounts, err := host.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(host.FindCgroups(mounts).Unified)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	n := 0
	for _, kind := range []ebpf.AttachType{
		ebpf.AttachCGroupInet4Connect, ebpf.AttachCGroupInet6Connect, ebpf.AttachCGroupUDP4Sendmsg, ebpf.AttachCGroupUDP6Sendmsg,
		ebpf.AttachCGroupUDP4Recvmsg, ebpf.AttachCGroupUDP6Recvmsg, ebpf.AttachCgroupInet4GetPeername, ebpf.AttachCgroupInet6GetPeername,
	} {
		result, err := link.QueryPrograms(link.QueryOptions{Target: int(root.Fd()), Attach: kind})
		if err != nil {
			t.Fatal(err)
		}
		n += len(result.Programs)
	}
	return n
}

func pids(t *testing.T) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func inodeOf(path string) (uint64, bool) {
	target, err := os.Readlink(path)
	if err != nil {
		return 0, false
	}
	inode, err := strconv.ParseUint(strings.TrimRight(target[strings.IndexByte(target, '[')+1:], "]"), 10, 64)
	return inode, err == nil
}
