// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inroot opens files of a node from a container: links with absolute paths lead to
// the node's files, and not to the container's.
package inroot

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a file by its path below root for reading. Its caller closes it.
func Open(root, path string) (*os.File, error) {
	dir, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	for {
		fd, err := unix.Openat2(int(dir.Fd()), path, &how)
		// The kernel reports EAGAIN if a component was renamed meanwhile (openat2(2)).
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return os.NewFile(uintptr(fd), path), nil
	}
}

// Stat describes a file by its path below root.
func Stat(root, path string) (os.FileInfo, error) {
	file, err := Open(root, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return file.Stat()
}
