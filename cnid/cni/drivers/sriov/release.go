// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/devicemove"
	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// The kernel ends a namespace, and gives its network device back to the node, a moment after
// the last process. returnPatience bounds the wait for it, returnPause is the time between two looks.
const (
	returnPatience = 5 * time.Second
	returnPause    = 10 * time.Millisecond
)

// Detach implements ifdriver.Driver. It restores the VF, wherever it is.
func (d *Driver) Detach(ctx context.Context, containerID, ifName string) error {
	return d.with(ctx, func(s *session) error { return s.detach(ctx, containerID, ifName) })
}

func (d *session) detach(ctx context.Context, containerID, ifName string) error {
	n, ok, err := d.notes.Get(containerID, ifName)
	if err != nil || !ok {
		return err
	}
	unlock, err := d.locks.Acquire(ctx, n.PCI)
	if err != nil {
		return err
	}
	defer unlock()
	// An attachment that got the VF after the end of the sandbox has released it.
	if n, ok, err = d.notes.Get(containerID, ifName); err != nil || !ok {
		return err
	}
	return d.release(ctx, n)
}

// release takes the interface from the pod, and only then gives the VF its earlier settings: with
// them the pod would be in another network. The caller holds the VF's lock. After a failure,
// release can be repeated from every state.
func (d *session) release(ctx context.Context, n note) error {
	if err := n.Remove(d.host, n.standsIn); err != nil {
		return err
	}
	f, err := d.comeBack(ctx, n)
	if errors.Is(err, errNoDevice) || errors.Is(err, errNoVF) {
		return d.notes.Remove(n) // the VF ended, and its settings with it
	}
	if err != nil {
		return err
	}
	p, now, err := d.pf(f)
	if err != nil {
		return err
	}
	err = restore(p, now, n.Saved)
	if f.Name != "" && n.Device != nil {
		err = errors.Join(err, d.reset(f.Name, *n.Device))
	}
	if err != nil {
		return fmt.Errorf("restore device %s: %w", n.PCI, err)
	}
	return d.notes.Remove(n)
}

// errElsewhere reports a network device that is in no network namespace that is known.
var errElsewhere = errors.New("it comes back when its network namespace ends: end the processes there")

// comeBack brings the network device of a VF into the node's namespace, if it has one.
func (d *session) comeBack(ctx context.Context, n note) (f function, err error) {
	err = await(ctx, func() (bool, error) {
		f, err = d.sys.function(n.PCI)
		if err != nil || f.Name != "" || n.Device == nil || f.userspace() {
			return true, err
		}
		return false, d.fetch(n)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return f, fmt.Errorf(
			"the network device of %s is neither on the node nor at %s, where sandbox %s had it: %w",
			n.PCI,
			n.NetnsPath,
			n.ContainerID,
			errElsewhere,
		)
	}
	return f, err
}

// await calls f until it is done or fails, for returnPatience at most.
func await(ctx context.Context, f func() (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, returnPatience)
	defer cancel()
	for {
		if done, err := f(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(returnPause):
		}
	}
}

// fetch moves the network device of a VF out of its pod, if it is there.
func (d *session) fetch(n note) error {
	pod, err := n.Open()
	if err != nil || pod == nil {
		return err
	}
	defer func() { _ = pod.Close() }()
	return podside.Within(pod, func(h *rtnl.Socket) error { return d.fetchFrom(h, n) })
}

func (d *session) fetchFrom(h *rtnl.Socket, n note) error {
	links, err := rtnl.Complete(h.LinkList)
	if err != nil {
		return fmt.Errorf("list the pod's devices: %w", err)
	}
	i := slices.IndexFunc(links, func(link netlink.Link) bool { return onPCI(link, n.PCI) })
	if i < 0 {
		return nil
	}
	return n.Device.Return(h, links[i], int(d.space.Fd()), n.temporary())
}

// reset gives a network device of the node the state that it had.
func (d *session) reset(name string, was devicemove.Device) error {
	link, err := d.host.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	return was.Restore(d.host, link, d.address)
}

// address gives a network device of the node an Ethernet address. A VF whose PF has fixed one
// refuses others. It takes the address of its PF when it is reset: when it is set down, or when
// it is set up.
func (d *session) address(link netlink.Link, mac net.HardwareAddr) error {
	if bytes.Equal(link.Attrs().HardwareAddr, mac) || d.host.LinkSetHardwareAddr(link, mac) == nil {
		return nil
	}
	if err := errors.Join(d.host.LinkSetUp(link), d.host.LinkSetDown(link)); err != nil {
		return fmt.Errorf("set %s up and down: %w", link.Attrs().Name, err)
	}
	again, err := d.host.LinkByIndex(link.Attrs().Index)
	if err != nil {
		return err
	}
	if got := again.Attrs().HardwareAddr; !bytes.Equal(got, mac) {
		return fmt.Errorf("%s keeps the Ethernet address %s, want %s", again.Attrs().Name, got, mac)
	}
	return nil
}

// ReleaseAll restores the VFs of all interfaces that a driver has made, also of living pods. It
// finds them by notes in the folder of its kind in dir. It is for a node that Alioth leaves, and
// the calling thread is in the node's network namespace. It goes on after an error.
func ReleaseAll(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, string(Kind))); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	d, err := New(Config{}, dir)
	if err != nil {
		return err
	}
	defer d.Close()
	list, err := d.List(ctx)
	errs := []error{err}
	for _, found := range list {
		errs = append(errs, d.Detach(ctx, found.ContainerID, found.IfName))
	}
	return errors.Join(errs...)
}
