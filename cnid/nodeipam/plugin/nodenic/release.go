// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenic

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/devicemove"
	"github.com/alioth-net/alioth/cnid/cni/drivers/nic"
	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// all selects every device of a note.
func all(device) bool { return true }

func (s *session) detach(containerID, ifName string) error {
	n, ok, err := s.notes.Get(containerID, ifName)
	if err != nil || !ok {
		return err
	}
	return s.release(n, all)
}

// release brings some devices of a note back to the node. Returned devices leave the note,
// because another pod may get them then. After a failure, release can be repeated from every
// state.
func (s *session) release(n note, some func(device) bool) error {
	var errs []error
	var left []device
	for _, d := range n.Devices {
		if some(d) {
			err := s.bringBack(n, d)
			if err == nil {
				continue
			}
			errs = append(errs, fmt.Errorf("bring back device %s, %s of sandbox %s: %w", d.MAC, d.Name, n.ContainerID, err))
		}
		left = append(left, d)
	}
	switch {
	case len(left) == 0:
		errs = append(errs, s.notes.Remove(n))
	case len(left) < len(n.Devices):
		n.Devices = left
		errs = append(errs, s.notes.Put(n))
	}
	return errors.Join(errs...)
}

// bringBack brings one device back, wherever it is. A device that is nowhere has ended with its
// namespace, or with its hardware.
func (s *session) bringBack(n note, d device) error {
	err := s.inPod(n, d, func(h *rtnl.Socket, link netlink.Link) error {
		return d.Was.Return(h, link, int(s.space.Fd()), n.temporary(d))
	})
	if err != nil {
		return err
	}
	links, err := rtnl.Complete(s.host.LinkList)
	if err != nil {
		return fmt.Errorf("list the node's devices: %w", err)
	}
	link := n.find(links, d)
	switch {
	case link != nil:
		return s.restore(link, d)
	case d.Kind == kindOfHardware && !d.removed():
		return errReturning
	}
	return nil
}

// inPod calls f for a device in its pod, if it is there.
func (s *session) inPod(n note, d device, f func(*rtnl.Socket, netlink.Link) error) error {
	pod, err := n.Open()
	if err != nil || pod == nil {
		return err
	}
	defer func() { _ = pod.Close() }() // nothing was written
	return podside.Within(pod, func(h *rtnl.Socket) error {
		links, err := rtnl.Complete(h.LinkList)
		if err != nil {
			return fmt.Errorf("list the pod's devices: %w", err)
		}
		if link := n.find(links, d); link != nil {
			return f(h, link)
		}
		return nil
	})
}

// restore gives a device of the node the state that it had. Since it came back, the node may
// have begun to use it: then it is left alone.
func (s *session) restore(link netlink.Link, d device) error {
	node, err := nic.Read()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(node.Links, func(l netlink.Link) bool { return l.Attrs().Index == link.Attrs().Index })
	if i < 0 || node.Use(node.Links[i]) != "" {
		return nil
	}
	if err := s.vacate(node, d); err != nil {
		return err
	}
	return d.Was.Restore(s.host, link, s.setMAC)
}

// vacate frees the former names of a device from other delegated ones, which the kernel has
// given back under the names that pods had chosen. They keep a temporary name until they are
// brought back. Other devices keep their names.
func (s *session) vacate(node nic.Node, d device) error {
	notes, err := s.notes.All()
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range notes {
		for _, other := range n.Devices {
			i := slices.IndexFunc(node.Links, other.is)
			if other.Kind != kindOfHardware || i < 0 || !borrows(node.Links[i], other.Was, d.Was) ||
				node.Use(node.Links[i]) != "" {
				continue
			}
			errs = append(errs, other.Was.Return(s.host, node.Links[i], int(s.space.Fd()), n.temporary(other)))
		}
	}
	return errors.Join(errs...)
}

// borrows reports whether a device has a name that it had not, and another one had.
func borrows(link netlink.Link, was, other devicemove.Device) bool {
	attrs := link.Attrs()
	return slices.ContainsFunc(append([]string{attrs.Name}, attrs.AltNames...), func(name string) bool {
		had := func(d devicemove.Device) bool { return name == d.Name || slices.Contains(d.AltNames, name) }
		return !had(was) && had(other)
	})
}

// setMAC undoes a pod's change of the Ethernet address of its device.
func (s *session) setMAC(link netlink.Link, mac net.HardwareAddr) error {
	if bytes.Equal(link.Attrs().HardwareAddr, mac) {
		return nil
	}
	if err := s.host.LinkSetHardwareAddr(link, mac); err != nil {
		return fmt.Errorf("set the Ethernet address %s: %w", mac, err)
	}
	return nil
}
