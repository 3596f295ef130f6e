// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Mount is one line of a mountinfo file, see proc_pid_mountinfo(5).
type Mount struct {
	// Point is the absolute mount point, unescaped.
	Point string
	// Type is the file system type, for example "cgroup2".
	Type string
	// Options are the per-superblock options.
	Options []string
}

// Mounts returns the mounts of the calling thread's mount namespace, the oldest first.
func Mounts() ([]Mount, error) {
	raw, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return ParseMounts(string(raw)), nil
}

// ParseMounts parses the text of a mountinfo file and skips malformed lines.
func ParseMounts(text string) []Mount {
	var mounts []Mount
	for line := range strings.Lines(text) {
		// The optional fields end with a lone hyphen.
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 6 || len(super) < 3 {
			continue
		}
		mounts = append(mounts, Mount{
			Point:   unescape.Replace(fields[4]),
			Type:    super[0],
			Options: strings.Split(super[2], ","),
		})
	}
	return mounts
}

// unescape undoes the kernel's octal escapes in mount points.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Cgroups are the mount points of a host's cgroup hierarchies.
type Cgroups struct {
	// Unified is the mount point of cgroup2, "" without one.
	Unified string
	// V1 maps each cgroup v1 controller, and "systemd" for the named
	// hierarchy, to its mount point. It is empty on a pure cgroup v2 host.
	V1 map[string]string
}

// FindCgroups returns the cgroup hierarchies among mounts.
func FindCgroups(mounts []Mount) Cgroups {
	c := Cgroups{V1: map[string]string{}}
	for _, m := range mounts {
		switch {
		case m.Type == "cgroup2" && c.Unified == "":
			c.Unified = m.Point
		case m.Type == "cgroup":
			for _, option := range m.Options {
				if name, ok := strings.CutPrefix(option, "name="); ok {
					c.V1[name] = m.Point
				} else if slices.Contains(v1Controllers(), option) {
					c.V1[option] = m.Point
				}
			}
		}
	}
	return c
}

// V2Only reports whether resource control happens in cgroup2.
func (c Cgroups) V2Only() bool { return c.Unified != "" && len(c.V1) == 0 }

// Roots returns the mount point of every hierarchy once, sorted.
func (c Cgroups) Roots() []string {
	var roots []string
	if c.Unified != "" {
		roots = append(roots, c.Unified)
	}
	for _, point := range c.V1 {
		roots = append(roots, point)
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}

func v1Controllers() []string {
	return []string{
		"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "net_cls", "blkio",
		"perf_event", "net_prio", "hugetlb", "pids", "rdma", "misc",
	}
}
