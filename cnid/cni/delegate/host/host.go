// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host gives access to files and programs as the node's own processes see them. The
// daemon has another mount namespace: the mount namespace of its container.
package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// RootOfNode and MountsOfNode are root directory and mount namespace of the node's first
// process. A daemon sees them in the PID namespace of the node only.
const (
	RootOfNode   Root   = "/proc/1/root"
	MountsOfNode string = "/proc/1/ns/mnt"
)

// Of returns root directory and mount namespace of a process that sees the node's files.
func Of(pid int) (Root, string) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	return Root(dir + "root"), dir + "ns/mnt"
}

// Subcommand is the subcommand of alioth-cnid that calls Exec. Its arguments are the file of
// the mount namespace and the program.
const Subcommand = "exec-on-host"

// Enter returns the command that starts the program in its last argument in the mount
// namespace of the file ns. self is the path of alioth-cnid.
func Enter(self, ns string) []string { return []string{self, Subcommand, "--", ns} }

// Exec replaces the process by the program argv[0] in the mount namespace of the file ns,
// for example MountsOfNode, and in its root directory. It returns only if
// that fails. The program gets argv and env unchanged.
func Exec(ns string, argv, env []string) error {
	// The kernel ends the other threads, and the program goes on with what this one has.
	runtime.LockOSThread()
	file, err := os.Open(ns)
	if err != nil {
		return fmt.Errorf("open mount namespace: %w", err)
	}
	// The threads of a Go process share their root and working directories, and a thread
	// that shares them can't change its mount namespace (setns(2)).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare file system information: %w", err)
	}
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter mount namespace %s: %w", ns, err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter root directory: %w", err)
	}
	return fmt.Errorf("execute %s: %w", argv[0], unix.Exec(argv[0], argv, env))
}

// Root is a directory that takes the place of the root directory: "/", or RootOfNode for a
// daemon in a container. Symbolic links lead to places below it.
type Root string

// open opens a path below the root, with links.
func (r Root) open(path string, flags uint64) (*os.File, error) {
	root, err := os.Open(string(r))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	return openat2(root, path, &how)
}

func openat2(dir *os.File, path string, how *unix.OpenHow) (*os.File, error) {
	for {
		fd, err := unix.Openat2(int(dir.Fd()), path, how)
		// The kernel reports EAGAIN if a component was renamed meanwhile (openat2(2)).
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// FindProgram returns the path, as processes in the root see it, of a program with a plain
// name in one of the directories. The first one has precedence.
func (r Root) FindProgram(name string, dirs []string) (string, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return "", fmt.Errorf("%.80q is not a plain file name", name)
	}
	for _, dir := range dirs {
		path := dir + "/" + name
		file, err := r.open(path, unix.O_PATH)
		if err != nil {
			continue
		}
		info, err := file.Stat()
		file.Close()
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("no program %s in %s on this node; install the CNI plugin there", name, strings.Join(dirs, ", "))
}

// Read returns the content of a regular file below the root, of at most 64 KiB.
func (r Root) Read(path string) ([]byte, error) {
	// A pipe without a writer would block the daemon.
	file, err := r.open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readRegular(file)
}

// Remove removes a file below the root. A missing file is not an error.
func (r Root) Remove(path string) error {
	dir, err := r.open(filepath.Dir(path), unix.O_RDONLY|unix.O_DIRECTORY)
	if err == nil {
		defer dir.Close()
		err = unix.Unlinkat(int(dir.Fd()), filepath.Base(path), 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
