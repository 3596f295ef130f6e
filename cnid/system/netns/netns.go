// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netns finds out which network namespace is behind a path, and whether
// one is there at all.
package netns

import (
	"errors"
	"fmt"
	"os"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// ErrGone reports that no network namespace is at a path: the path doesn't exist, or is the
// remains of a namespace's mount.
var ErrGone = errors.New("network namespace is gone")

// ID distinguishes network namespaces.
type ID struct {
	// Inode is the inode of the namespace's file. It may be used again for another namespace
	// after the namespace has ended.
	Inode uint64
	// Cookie is never used twice between two boots.
	Cookie uint64
}

// Open opens the network namespace at path, for the caller to close. Where
// none is, the error is an ErrGone.
func Open(path string) (ns.NetNS, error) {
	if path == "" {
		return nil, fmt.Errorf("open network namespace: the path is empty: %w", ErrGone)
	}
	netns, err := ns.GetNS(path)
	if isGone(err) {
		return nil, fmt.Errorf("open network namespace %s: %w", path, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	return netns, nil
}

func isGone(err error) bool {
	var notExist ns.NSPathNotExistErr
	var notNS ns.NSPathNotNSErr
	return errors.As(err, &notExist) || errors.As(err, &notNS) || errors.Is(err, os.ErrNotExist)
}

// Identify returns which network namespace is at path, or an ErrGone.
func Identify(path string) (ID, error) {
	netns, err := Open(path)
	if err != nil {
		return ID{}, err
	}
	// Nothing was written, so nothing is lost when closing fails.
	defer func() { _ = netns.Close() }()
	return Of(netns)
}

// Of returns which network namespace is open.
func Of(netns ns.NetNS) (id ID, err error) {
	err = netns.Do(func(ns.NetNS) error {
		id, err = Current()
		return err
	})
	return id, err
}

// Current returns the network namespace of the calling thread, which the
// caller has locked.
func Current() (ID, error) {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &stat); err != nil {
		return ID{}, fmt.Errorf("stat the thread's network namespace: %w", err)
	}
	cookie, err := currentCookie()
	if err != nil {
		return ID{}, fmt.Errorf("read the network namespace's cookie: %w", err)
	}
	return ID{Inode: stat.Ino, Cookie: cookie}, nil
}

// currentCookie asks a socket, which belongs to the namespace that its thread
// is in (socket(7), SO_NETNS_COOKIE).
func currentCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return cookie, errors.Join(err, unix.Close(fd))
}
