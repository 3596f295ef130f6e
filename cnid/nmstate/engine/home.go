// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// first is the first process of a PID namespace, which ends last.
const first = 1

// home is where a guard lives: with a process of the node that does not end, in its control
// groups and, if it has other ones than this process, in its namespaces.
type home struct {
	pid int
	// mounts and groups are its namespaces, nil if this process has the same mounts.
	mounts, groups *os.File
}

// homeOf returns the home of guards on a node with a file system, for the caller to close.
// For /proc/PID/root, the guard runs in the mount namespace and the control groups of PID.
func homeOf(root string) (home, error) {
	pid := processOf(root)
	if pid == 0 {
		return home{pid: first}, nil
	}
	process := fmt.Sprintf("/proc/%d", pid)
	h := home{pid: pid}
	own, err := os.Stat("/proc/self/ns/mnt")
	if err != nil {
		return h, fmt.Errorf("look at the own mount namespace: %w", err)
	}
	if h.mounts, err = os.Open(filepath.Join(process, "ns/mnt")); err != nil {
		return h, fmt.Errorf("open the node's mount namespace (is the container privileged?): %w", err)
	}
	theirs, err := h.mounts.Stat()
	if err == nil && os.SameFile(own, theirs) {
		h.close()
		return home{pid: pid}, nil
	}
	if err == nil {
		h.groups, err = os.Open(filepath.Join(process, "ns/cgroup"))
	}
	if err != nil {
		h.close()
		return h, fmt.Errorf("open the node's namespace of control groups: %w", err)
	}
	return h, nil
}

// processOf returns PID of a path /proc/PID/root, 0 for other paths.
func processOf(root string) int {
	process, of := filepath.Split(filepath.Clean(root))
	proc, number := filepath.Split(filepath.Clean(process))
	pid, err := strconv.Atoi(number)
	if err != nil || of != "root" || proc != "/proc/" {
		return 0
	}
	return pid
}

// elsewhere reports whether the home has other mounts than this process.
func (h home) elsewhere() bool { return h.mounts != nil }

func (h home) close() {
	for _, file := range []*os.File{h.mounts, h.groups} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// start starts a process there. The calling thread is there afterwards.
func (h home) start(command *exec.Cmd) error {
	if h.elsewhere() {
		if err := h.enter(); err != nil {
			return err
		}
	}
	if err := command.Start(); err != nil {
		return err
	}
	if err := h.adopt(command.Process.Pid); err != nil {
		return errors.Join(err, command.Process.Kill(), ended(command.Wait()))
	}
	return nil
}

// ended is an error other than that a process was killed.
func ended(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// enter moves the calling thread into the namespaces.
func (h home) enter() error {
	// The threads of a process share their root and working directories, and a thread
	// that shares them can't change its mount namespace (setns(2)).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare file system information: %w", err)
	}
	if err := unix.Setns(int(h.groups.Fd()), unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("enter the node's namespace of control groups: %w", err)
	}
	if err := unix.Setns(int(h.mounts.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the node's mount namespace: %w", err)
	}
	return unix.Chdir("/")
}

// adopt moves a process into the control groups of the home. The end of a container, a unit or a
// session ends the processes of its control groups (cgroups(7)): the groups of the unified
// hierarchy, and in a container the groups of other hierarchies, which could not be removed
// either.
func (h home) adopt(pid int) error {
	list, err := hierarchies()
	if err != nil {
		return err
	}
	now, err := groupsOf(pid)
	if err != nil {
		return err
	}
	want, err := groupsOf(h.pid)
	if err != nil {
		return err
	}
	for _, hierarchy := range list {
		group, known := want[hierarchy.name]
		if !known || group == now[hierarchy.name] || hierarchy.name != unified && !h.elsewhere() {
			continue
		}
		path := filepath.Join(hierarchy.path, group, "cgroup.procs")
		if err := os.WriteFile(path, []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("leave the control group %s: %w", now[hierarchy.name], err)
		}
	}
	return nil
}
