// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// carrierPatience bounds the wait for the host end's carrier. The pauses between two
// questions double up to carrierPause: many pods that ask often would take the processor
// from the worker of the kernel that they wait for.
const (
	carrierPatience = 500 * time.Millisecond
	carrierPause    = 16 * time.Millisecond
)

// operStates reads the operational states of devices (RFC 2863, ifOperStatus) of one network
// namespace from a sysfs of its own. Sysfs answers without the kernel's lock of all devices,
// which every question by netlink waits for. The mount is attached to no folder: the sysfs under
// /sys may show another network namespace.
type operStates struct{ root *os.File }

// newOperStates returns the states of the calling thread's network namespace.
func newOperStates() (operStates, error) {
	context, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return operStates{}, fmt.Errorf("open a sysfs: %w", err)
	}
	defer func() { _ = unix.Close(context) }()
	if err := unix.FsconfigCreate(context); err != nil {
		return operStates{}, fmt.Errorf("create a sysfs: %w", err)
	}
	root, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return operStates{}, fmt.Errorf("mount a sysfs: %w", err)
	}
	return operStates{os.NewFile(uintptr(root), "sysfs")}, nil
}

func (s operStates) close() { _ = s.root.Close() } // nothing was written

// isUp reports whether the kernel sends by a device.
func (s operStates) isUp(device string) (bool, error) {
	fd, err := unix.Openat(int(s.root.Fd()), "class/net/"+device+"/operstate", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open the state of %s: %w", device, err)
	}
	defer func() { _ = unix.Close(fd) }()
	var text [16]byte
	n, err := unix.Read(fd, text[:])
	if err != nil {
		return false, fmt.Errorf("read the state of %s: %w", device, err)
	}
	return strings.TrimSpace(string(text[:n])) == "up", nil
}

// awaitUp waits until the kernel lets a device send. The pod's end gives the host end its
// carrier, but a worker of the kernel activates its queue later, and until then every packet to
// the pod is lost. The worker sets the state just before it activates the queue, in one hold of
// its lock, and programs are attached under the same lock after that. Where the wait is longer
// than carrierPatience, or the device is gone, the attachment goes on: the next step finds the
// failure.
func (s operStates) awaitUp(ctx context.Context, device string) {
	ctx, cancel := context.WithTimeout(ctx, carrierPatience)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, carrierPause) {
		if up, err := s.isUp(device); up || err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
