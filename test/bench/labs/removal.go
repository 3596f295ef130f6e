// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package labs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// pause is the time between two looks at the devices.
const pause = 10 * time.Millisecond

// namespacesRemoved returns when the kernel has removed the devices of every network namespace
// whose last user is gone by now, or when ctx ends, with its error. The kernel removes a namespace
// some time after its last user is gone, many of them at once, and holds its lock of all devices
// while it does. A measurement that begins earlier waits for that lock on account of the one before
// it. The kernel removes namespaces in the order of their ends. So namespacesRemoved ends a
// namespace with one end of a pair of devices, and waits until the other end is gone.
func namespacesRemoved(ctx context.Context) error {
	stays, err := newNamespace()
	if err != nil {
		return err
	}
	defer func() { _ = stays.Close() }()
	handle, err := netlink.NewHandleAt(stays, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	defer handle.Close()
	if err := addPair(handle); err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, pause, true, func(context.Context) (bool, error) {
		_, err := handle.LinkByName(staying)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("wait for the removal of network namespaces: %w", err)
	}
	return nil
}

// staying is the name of the end that is removed with its peer.
const staying = "stays"

// addPair makes a pair whose peer is in a namespace that ends before addPair returns.
func addPair(handle *netlink.Handle) error {
	space, err := newNamespace()
	if err != nil {
		return err
	}
	defer func() { _ = space.Close() }()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = staying
	if err := handle.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "goes", PeerNamespace: netlink.NsFd(space)}); err != nil {
		return fmt.Errorf("make a pair of devices: %w", err)
	}
	return nil
}

// newNamespace returns a new network namespace, which ends when it is closed.
func newNamespace() (space netns.NsHandle, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := netns.Get()
	if err != nil {
		return netns.None(), fmt.Errorf("open the thread's network namespace: %w", err)
	}
	defer func() { _ = own.Close() }()
	space, err = netns.New()
	if err != nil {
		return netns.None(), fmt.Errorf("make a network namespace: %w", err)
	}
	if err := netns.Set(own); err != nil {
		runtime.LockOSThread() // once more, so that nothing else runs in the new namespace
		return netns.None(), errors.Join(fmt.Errorf("return to the thread's network namespace: %w", err), space.Close())
	}
	return space, nil
}
