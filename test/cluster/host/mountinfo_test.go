// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	v2Host = `22 27 0:21 / /proc rw,relatime shared:12 - proc proc rw
29 23 0:25 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
`
	hybridHost = `30 23 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:5 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/systemd rw,nosuid shared:6 - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:7 - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/memory rw,nosuid shared:8 - cgroup cgroup rw,memory
35 30 0:31 / /sys/fs/cgroup/cpuset rw,nosuid shared:9 - cgroup cgroup rw,cpuset
36 30 0:32 / /sys/fs/cgroup/pids rw,nosuid shared:10 - cgroup cgroup rw,pids
`
	v1Host = `33 30 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
`
)

func TestFindCgroups_EachLayout_HierarchiesFound(t *testing.T) {
	tests := []struct {
		name   string
		text   string
		want   Cgroups
		v2Only bool
		roots  []string
	}{
		{
			name: "cgroup v2", text: v2Host, v2Only: true,
			want:  Cgroups{Unified: "/sys/fs/cgroup", V1: map[string]string{}},
			roots: []string{"/sys/fs/cgroup"},
		},
		{
			name: "hybrid with two controllers on one mount", text: hybridHost,
			want: Cgroups{Unified: "/sys/fs/cgroup/unified", V1: map[string]string{
				"systemd": "/sys/fs/cgroup/systemd", "cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
				"memory": "/sys/fs/cgroup/memory", "cpuset": "/sys/fs/cgroup/cpuset", "pids": "/sys/fs/cgroup/pids",
			}},
			roots: []string{
				"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/memory",
				"/sys/fs/cgroup/pids", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified",
			},
		},
		{
			name: "cgroup v1 alone", text: v1Host,
			want:  Cgroups{V1: map[string]string{"cpu": "/sys/fs/cgroup/cpu"}},
			roots: []string{"/sys/fs/cgroup/cpu"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := FindCgroups(ParseMounts(tt.text))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("hierarchies (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.roots, got.Roots()); diff != "" {
				t.Errorf("roots (-want +got):\n%s", diff)
			}
			if got.V2Only() != tt.v2Only {
				t.Errorf("V2Only() = %v", got.V2Only())
			}
		})
	}
}

func TestParseMounts_EscapedAndMalformed_UnescapedAndSkipped(t *testing.T) {
	mounts := ParseMounts("garbage\n1 2 0:3 / /mnt/a\\040b rw - tmpfs tmpfs rw,size=1k\n1 2 - short\n")
	want := []Mount{{Point: "/mnt/a b", Type: "tmpfs", Options: []string{"rw", "size=1k"}}}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}
