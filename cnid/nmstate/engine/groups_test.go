// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "testing"

func TestCgroups_Mounts_HierarchiesFound(t *testing.T) {
	for line, want := range map[string]hierarchy{
		"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate":                {unified, "/sys/fs/cgroup"},
		"31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct":            {"cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct"},
		"32 23 0:28 / /sys/fs/cgroup/systemd ro - cgroup cgroup ro,xattr,release_agent=/a,name=systemd": {"name=systemd", "/sys/fs/cgroup/systemd"},
		"33 23 0:26 /kubepods /sys/fs/cgroup rw - cgroup2 cgroup2 rw":                                   {},
		"34 23 0:29 / /proc rw - proc proc rw":                                                          {},
		"35 23 0:29 / /odd":                                                                             {},
	} {
		if got, ok := readMount(line); got != want || ok != (want.path != "") {
			t.Errorf("%s: %+v, %v", line, got, ok)
		}
	}
}

func TestRootPath_EachFilesystem_ProcessFound(t *testing.T) {
	for root, want := range map[string]int{"/proc/1/root": 1, "/proc/42/root/": 42, "/": 0, "/host": 0, "/proc/1/cwd": 0, "/a/1/root": 0, "/proc/x/root": 0} {
		if got := processOf(root); got != want {
			t.Errorf("%s: %d, want %d", root, got, want)
		}
	}
}
