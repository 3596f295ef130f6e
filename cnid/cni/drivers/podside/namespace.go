// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podside

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Within runs f on a thread inside the pod's namespace. Netlink sockets and /proc/sys/net are
// bound to threads there.
func Within(pod ns.NetNS, f func(*rtnl.Socket) error) error {
	return pod.Do(func(ns.NetNS) error {
		h, err := rtnl.OpenSocket()
		if err != nil {
			return err
		}
		defer h.Close()
		return f(h)
	})
}

// Try runs f on a thread in a network namespace of its own, which ends with f. An ended
// ctx is an error at once; f goes on.
func Try(ctx context.Context, f func() error) error {
	result := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with the function, and the namespace
		// with the thread.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("make network namespace: %w", err)
			return
		}
		result <- f()
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-result:
		return err
	}
}

// RefuseNode returns an error if a pod's namespace is the node's. It keeps a runtime's
// mistake from renumbering the node.
func RefuseNode(pod ns.NetNS, node netns.ID) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(pod.Fd()), &stat); err != nil {
		return fmt.Errorf("stat network namespace: %w", err)
	}
	if stat.Ino == node.Inode {
		return fmt.Errorf("%s is the node's own network namespace", pod.Path())
	}
	return nil
}

// IsNotFound reports whether an error of a look-up says that the device does not exist.
func IsNotFound(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound)
}
