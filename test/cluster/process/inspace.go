// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// OnThread runs fn on a thread of its own, which ends with it. fn may change
// the thread's namespaces; whatever it starts inherits them.
func OnThread(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread cannot end before the process, and others take its namespaces for
			// the process's. While this goroutine occupies it, the next one gets another.
			result <- OnThread(fn)
			runtime.UnlockOSThread()
			return
		}
		// Never unlocked: the runtime then ends the thread instead of handing
		// its changed namespaces to another goroutine.
		result <- fn()
	}()
	return <-result
}

// Space names the namespaces that Enter joins, as paths of namespace files; an
// empty path leaves that namespace alone.
type Space struct {
	Net, Mount, UTS string
}

// SpaceOf returns the namespaces of a running process.
func SpaceOf(id ID) Space {
	dir := fmt.Sprintf("/proc/%d/ns/", id.PID)
	return Space{Net: dir + "net", Mount: dir + "mnt", UTS: dir + "uts"}
}

// Enter moves the calling thread, which must be one of OnThread, into s.
func (s Space) Enter() error {
	// All files are opened first: in another mount namespace /proc may differ.
	var fds []int
	var kinds []int
	for _, ns := range []struct {
		path string
		kind int
	}{{s.Net, unix.CLONE_NEWNET}, {s.UTS, unix.CLONE_NEWUTS}, {s.Mount, unix.CLONE_NEWNS}} {
		if ns.path == "" {
			continue
		}
		fd, err := unix.Open(ns.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open the namespace %s: %w", ns.path, err)
		}
		defer unix.Close(fd)
		fds, kinds = append(fds, fd), append(kinds, ns.kind)
	}
	// A thread that shares its root and working folder with others may not
	// change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("separate the thread's file system state: %w", err)
	}
	for i, fd := range fds {
		if err := unix.Setns(fd, kinds[i]); err != nil {
			return fmt.Errorf("enter a namespace: %w", err)
		}
	}
	return nil
}

// Inside returns the IDs of all processes whose network or mount namespace is
// the one behind any of the given namespace files. Files that are gone are
// skipped.
func Inside(nsFiles []string) ([]int, error) {
	wanted := map[uint64]bool{}
	for _, path := range nsFiles {
		if inode, ok := inodeOf(path); ok {
			wanted[inode] = true
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, kind := range []string{"net", "mnt"} {
			inode, ok := inodeOf(filepath.Join("/proc", entry.Name(), "ns", kind))
			if ok && wanted[inode] {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids, nil
}

func inodeOf(path string) (uint64, bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0, false
	}
	return st.Ino, true
}
