// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// unified is the name of the hierarchy of version 2.
const unified = ""

// hierarchy is a hierarchy of control groups that is mounted.
type hierarchy struct {
	// name is unified, or the controllers of version 1 as the kernel writes them, or the name=
	// of one without controllers.
	name string
	path string
}

// hierarchies returns the hierarchies of the calling thread's mount namespace, each once.
func hierarchies() ([]hierarchy, error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("look for control groups: %w", err)
	}
	var list []hierarchy
	for line := range strings.Lines(string(text)) {
		h, ok := readMount(line)
		if ok && !slices.ContainsFunc(list, func(other hierarchy) bool { return other.name == h.name }) {
			list = append(list, h)
		}
	}
	return list, nil
}

// readMount reads a line of mountinfo (proc_pid_mountinfo(5)). It returns false unless the line
// is about a complete hierarchy.
func readMount(line string) (h hierarchy, ok bool) {
	mount, system, _ := strings.Cut(line, " - ")
	at, of := strings.Fields(mount), strings.Fields(system)
	const root, path, kind, options = 3, 4, 0, 2
	if len(at) <= path || len(of) <= options || at[root] != "/" {
		return h, false
	}
	switch of[kind] {
	case "cgroup2":
		return hierarchy{unified, at[path]}, true
	case "cgroup":
		return hierarchy{controllers(of[options]), at[path]}, true
	default:
		return h, false
	}
}

// controllers filters the options of a mount of version 1: it leaves out the options that every
// mount has, and returns the names of the controllers.
func controllers(options string) string {
	var names []string
	for _, option := range strings.Split(options, ",") {
		switch key, _, _ := strings.Cut(option, "="); key {
		case "rw", "ro", "xattr", "noprefix", "clone_children", "release_agent", "cpuset_v2_mode", "favordynmods":
		default:
			names = append(names, option)
		}
	}
	return strings.Join(names, ",")
}

// groupsOf returns the control groups of a process by the names of the hierarchies, as the
// calling thread's namespace has them.
func groupsOf(pid int) (map[string]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("look for the control groups of process %d: %w", pid, err)
	}
	groups := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(parts) == 3 {
			groups[parts[1]] = parts[2]
		}
	}
	return groups, nil
}
