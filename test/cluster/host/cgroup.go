// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// daemonsGroup is the leaf below a node's cgroup that holds the processes of the lab: with cgroup2,
// a group with children may hold no processes itself.
const daemonsGroup = "daemons"

// Create makes the cgroup called name in every hierarchy, ready to be a
// kubelet's cgroup root, and a leaf for the daemons.
func (c Cgroups) Create(name string) error {
	for _, root := range c.Roots() {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
		if root == c.V1["cpuset"] {
			if err := inheritCpuset(root, dir); err != nil {
				return err
			}
		}
	}
	if c.V2Only() {
		for _, dir := range []string{c.Unified, filepath.Join(c.Unified, name)} {
			if err := enableControllers(dir); err != nil {
				return err
			}
		}
	}
	for _, dir := range c.DaemonsDirs(name) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a cgroup for the daemons: %w", err)
		}
	}
	return nil
}

// DaemonsDirs returns the folders of the cgroup of name's daemons: the folder of cgroup2 and, where
// cgroup v1 shares out the CPU, a folder there. There they are one group beside the pods, as with
// systemd, instead of many processes that each count as much as all pods together.
func (c Cgroups) DaemonsDirs(name string) []string {
	dirs := []string{filepath.Join(c.Unified, name, daemonsGroup)}
	if cpu, ok := c.V1["cpu"]; ok {
		dirs = append(dirs, filepath.Join(cpu, name, daemonsGroup))
	}
	return dirs
}

// inheritCpuset fills in the CPUs and memory nodes that a new v1 cpuset lacks: without them no
// process may enter it.
func inheritCpuset(root, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(root, file))
		if errors.Is(err, fs.ErrNotExist) { // mounted with noprefix
			file = strings.TrimPrefix(file, "cpuset.")
			value, err = os.ReadFile(filepath.Join(root, file))
		}
		if err != nil {
			return fmt.Errorf("read the root cpuset: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
			return fmt.Errorf("copy the root cpuset: %w", err)
		}
	}
	return nil
}

// enableControllers hands every available controller of dir to its children.
func enableControllers(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("list cgroup controllers: %w", err)
	}
	for _, name := range strings.Fields(string(raw)) {
		err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0o644)
		if err != nil && kubeletNeeds(name) {
			return fmt.Errorf("enable the cgroup controller %s below %s: %w", name, dir, err)
		}
	}
	return nil
}

func kubeletNeeds(controller string) bool {
	switch controller {
	case "cpu", "cpuset", "memory", "pids":
		return true
	}
	return false
}

// Processes returns the IDs of all processes in or below the cgroup called
// name, in any hierarchy. An absent cgroup has none.
func (c Cgroups) Processes(name string) ([]int, error) {
	var pids []int
	for _, root := range c.Roots() {
		err := walkGroups(filepath.Join(root, name), func(dir string) error {
			found, err := groupMembers(dir)
			pids = append(pids, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return pids, nil
}

// Thaw lets the processes in and below the cgroup called name run again, whoever froze them. In
// a frozen group of cgroup v1 a killed process does not end; in one of cgroup2 it does. runc
// freezes the group of a container for a moment, and leaves it frozen if runc is killed then.
func (c Cgroups) Thaw(name string) error {
	root, ok := c.V1["freezer"]
	if !ok {
		return nil
	}
	return walkGroups(filepath.Join(root, name), func(dir string) error {
		err := os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("thaw a cgroup: %w", err)
		}
		return nil
	})
}

// Remove removes the cgroup called name and all below it from every hierarchy.
// The kernel keeps a group busy for a moment after its last process has died,
// so it tries until ctx ends.
func (c Cgroups) Remove(ctx context.Context, name string) error {
	for _, root := range c.Roots() {
		var dirs []string
		err := walkGroups(filepath.Join(root, name), func(dir string) error {
			dirs = append(dirs, dir)
			return nil
		})
		if err != nil {
			return err
		}
		for i := len(dirs) - 1; i >= 0; i-- {
			if err := removeGroup(ctx, dirs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func removeGroup(ctx context.Context, dir string) error {
	for {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("remove the cgroup %s: %w", dir, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove the cgroup %s (it still has processes): %w", dir, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// walkGroups calls visit for dir and each group below it, parents first. Groups
// that vanish on the way are skipped.
func walkGroups(dir string, visit func(dir string) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list a cgroup: %w", err)
	}
	if err := visit(dir); err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := walkGroups(filepath.Join(dir, entry.Name()), visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func groupMembers(dir string) ([]int, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list the processes of a cgroup: %w", err)
	}
	var pids []int
	for _, field := range strings.Fields(string(raw)) {
		// 0 stands for a process outside of the caller's PID namespace.
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
