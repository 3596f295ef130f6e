// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package bootunit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fileIn returns the file that a path leads to for processes whose root directory is root:
// systemctl makes links with absolute paths, which lead elsewhere in a container. It is an
// error if there is none.
func fileIn(root, path string) (os.FileInfo, error) {
	dir, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	for {
		fd, err := unix.Openat2(int(dir.Fd()), path, &how)
		// The kernel reports EAGAIN if a component was renamed meanwhile (openat2(2)).
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		file := os.NewFile(uintptr(fd), path)
		defer func() { _ = file.Close() }()
		return file.Stat()
	}
}
