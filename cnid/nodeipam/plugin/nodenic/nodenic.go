// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodenic moves devices of the node into pods, as the node IPAM API answers, and
// back. A device that the node itself needs is never moved (package nic).
//
// A note on disk precedes each move. So the next process can undo the steps of a process that
// ends at any moment. The notes end with the boot, as the network namespaces of pods do.
package nodenic

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// DefaultDir is the folder of the notes. It must not outlive a boot.
const DefaultDir = "/run/alioth/node-ipam-devices"

// The kernel ends a namespace, and gives its devices back to the node, a moment after the
// last process. returnPatience bounds the wait for it. pause is the time between two looks
// at something that another process, or the kernel, does.
const (
	returnPatience = 5 * time.Second
	pause          = 10 * time.Millisecond
)

// Devices are the delegated devices of the node in whose network namespace the calling
// thread is. Processes may use one folder at the same time.
type Devices struct {
	// Dir is the folder of the notes, "" for DefaultDir.
	Dir string
}

// Attachment is a pod's request of one command.
type Attachment struct {
	// ContainerID and IfName identify it: CNI_CONTAINERID and CNI_IFNAME.
	ContainerID, IfName string
	// Network is the name of the network configuration.
	Network string
	// NetnsPath is a file that refers to the pod's network namespace.
	NetnsPath string
}

// Passes reports whether an error will pass: a device is not there yet.
func Passes(err error) bool {
	return errors.Is(err, ifdriver.ErrNotYet) || errors.Is(err, errReturning) || errors.Is(err, context.DeadlineExceeded)
}

// errReturning reports a device with hardware that is neither on the node nor in its pod.
var errReturning = errors.New("it comes back when its network namespace ends: end the processes there")

// Attach moves devices into the pod and configures them there. If they are there already, it
// changes nothing. On an error all of them are on the node. Without any devices it does not need
// the pod's namespace, and brings back the devices of an earlier attempt.
func (d Devices) Attach(ctx context.Context, a Attachment, wanted []Interface) error {
	if len(wanted) == 0 && !d.used() {
		return nil
	}
	return d.with(ctx, func(s *session) error { return s.attach(a, wanted) })
}

// Detach brings the devices of an attachment back to the node. Without any, or if the kernel
// does so later, it succeeds. In the latter case the note stays: the next Attach or Collect
// gives the device its name.
func (d Devices) Detach(ctx context.Context, containerID, ifName string) error {
	if !d.used() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, returnPatience)
	defer cancel()
	for {
		err := d.with(ctx, func(s *session) error { return s.detach(containerID, ifName) })
		if !errors.Is(err, errReturning) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Collect brings back the devices of the attachments of a network that are gone. It asks
// gone without the lock of the folder.
func (d Devices) Collect(
	ctx context.Context,
	network string,
	gone func(containerID, ifName string) (bool, error),
) error {
	if !d.used() {
		return nil
	}
	var all []note
	err := d.with(ctx, func(s *session) (err error) {
		all, err = s.notes.All()
		return err
	})
	errs := []error{err}
	for _, n := range all {
		if n.Network != network {
			continue
		}
		ended, err := gone(n.ContainerID, n.IfName)
		if err == nil && ended {
			err = d.with(ctx, func(s *session) error { return s.detach(n.ContainerID, n.IfName) })
		}
		if !errors.Is(err, errReturning) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Check compares the devices of an attachment with what Attach has made. The container must
// have devices under all of the names, whichever attachment they came with.
func (d Devices) Check(ctx context.Context, a Attachment, names []string) error {
	if !d.used() && len(names) == 0 {
		return nil
	}
	return d.with(ctx, func(s *session) error { return s.check(a, names) })
}

func (d Devices) dir() string {
	if d.Dir == "" {
		return DefaultDir
	}
	return d.Dir
}

// used reports whether this node may have delegated devices. Most have none.
func (d Devices) used() bool {
	_, err := os.Stat(d.dir())
	return !errors.Is(err, os.ErrNotExist)
}

// session is one call that has the folder, with a socket in the node's namespace.
type session struct {
	notes sandbox.Notes[note]
	host  *rtnl.Socket
	space ns.NetNS
	id    netns.ID
}

// with calls f with a session, when no other process has the folder.
func (d Devices) with(ctx context.Context, f func(*session) error) error {
	unlock, err := lock(ctx, d.dir())
	if err != nil {
		return fmt.Errorf("lock the notes about delegated devices: %w", err)
	}
	defer unlock()
	runtime.LockOSThread() // the namespace of the node is the namespace of this thread
	defer runtime.UnlockOSThread()
	s := session{}
	if s.notes, err = sandbox.NewNotes[note](d.dir()); err != nil {
		return err
	}
	if s.id, err = netns.Current(); err != nil {
		return err
	}
	if s.space, err = ns.GetCurrentNS(); err != nil {
		return fmt.Errorf("open the node's network namespace: %w", err)
	}
	defer func() { _ = s.space.Close() }() // nothing was written
	if s.host, err = rtnl.OpenSocket(); err != nil {
		return err
	}
	defer s.host.Close()
	return f(&s)
}

// lock makes a folder and locks it. The lock ends with the process at the latest.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(err, file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(pause):
		}
	}
}
