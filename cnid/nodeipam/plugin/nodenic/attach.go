// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenic

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/devicemove"
	"github.com/alioth-net/alioth/cnid/cni/drivers/nic"
	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/neighbours"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

func (s *session) attach(a Attachment, wanted []Interface) error {
	if len(wanted) == 0 {
		return s.detach(a.ContainerID, a.IfName)
	}
	pod, err := netns.Open(a.NetnsPath)
	if err != nil {
		return err
	}
	defer func() { _ = pod.Close() }() // nothing was written
	if err := podside.RefuseNode(pod, s.id); err != nil {
		return err
	}
	earlier, known, err := s.notes.Get(a.ContainerID, a.IfName)
	if err != nil {
		return err
	}
	if known {
		if earlier.gives(wanted) && s.checkNote(earlier, a.NetnsPath) == nil {
			return nil
		}
		if err := s.release(earlier, all); err != nil {
			return fmt.Errorf("remove remains of an earlier attempt: %w", err)
		}
	}
	if err := s.evict(wanted); err != nil {
		return err
	}
	return s.take(pod, a, wanted)
}

// evict brings back the wanted devices that ended attachments have. A living attachment keeps its
// device, until the DEL that will come.
func (s *session) evict(wanted []Interface) error {
	notes, err := s.notes.All()
	if err != nil {
		return err
	}
	claimed := func(d device) bool {
		return slices.ContainsFunc(wanted, func(one Interface) bool { return bytes.Equal(one.MAC, d.MAC) })
	}
	for _, n := range notes {
		for _, d := range n.Devices {
			if !claimed(d) {
				continue
			}
			if err := s.held(n, d); err != nil {
				return err
			}
		}
		if err := s.release(n, claimed); err != nil {
			return err
		}
	}
	return nil
}

// held returns an error for a device that is in its pod.
func (s *session) held(n note, d device) error {
	return s.inPod(n, d, func(*rtnl.Socket, netlink.Link) error {
		return fmt.Errorf("%w: device %s is still %s of sandbox %s", ifdriver.ErrNotYet, d.MAC, d.Name, n.ContainerID)
	})
}

// take moves the devices. All is planned, and noted, before the first is moved.
func (s *session) take(pod ns.NetNS, a Attachment, wanted []Interface) error {
	n, links, err := plan(pod, a, wanted)
	if err != nil {
		return err
	}
	if err := s.notes.Put(n); err != nil {
		return err
	}
	for i, d := range n.Devices {
		if err := s.give(pod, n, d, links[i]); err != nil {
			err = fmt.Errorf("make device %s (%s) the interface %s of the pod: %w", d.MAC, d.Was.Name, d.Name, err)
			return errors.Join(err, s.release(n, all))
		}
	}
	return nil
}

// plan finds the devices on the node, and that their names are free in the pod.
func plan(pod ns.NetNS, a Attachment, wanted []Interface) (note, []netlink.Link, error) {
	id, err := netns.Of(pod)
	if err != nil {
		return note{}, nil, err
	}
	if err := free(pod, wanted); err != nil {
		return note{}, nil, err
	}
	node, err := nic.Read()
	if err != nil {
		return note{}, nil, err
	}
	n := note{Interface: sandbox.Interface{
		ContainerID: a.ContainerID, IfName: a.IfName, Network: a.Network, NetnsPath: a.NetnsPath, Inode: id.Inode,
		Cookie: id.Cookie, Begun: time.Now(),
	}}
	var links []netlink.Link
	for _, one := range wanted {
		link, err := node.Find(one.MAC)
		if errors.Is(err, nic.ErrMissing) {
			err = fmt.Errorf("%w: %w", ifdriver.ErrNotYet, err)
		}
		if err != nil {
			return note{}, nil, fmt.Errorf("device %s for %s: %w", one.MAC, one.Name, err)
		}
		links = append(links, link)
		n.Devices = append(n.Devices, deviceOf(link, one))
	}
	return n, links, nil
}

// free returns an error if the pod has an interface of one of the names.
func free(pod ns.NetNS, wanted []Interface) error {
	return podside.Within(pod, func(h *rtnl.Socket) error {
		for _, one := range wanted {
			_, err := h.LinkByName(one.Name)
			if err == nil {
				return ifdriver.Taken(one.Name)
			}
			if !podside.IsNotFound(err) {
				return fmt.Errorf("look for %s in the pod: %w", one.Name, err)
			}
		}
		return nil
	})
}

// give moves one device, and configures it.
func (s *session) give(pod ns.NetNS, n note, d device, link netlink.Link) error {
	if err := devicemove.Move(s.host, link, int(pod.Fd()), n.temporary(d)); err != nil {
		return err
	}
	return podside.Within(pod, func(h *rtnl.Socket) error { return configure(h, n, d) })
}

// configure gives a device that has arrived its name and all that the pod gets. The gateway
// has no entry in the table of neighbours: the answer names no Ethernet address for it, and
// it answers requests for its own.
func configure(h *rtnl.Socket, n note, d device) error {
	arrived, err := h.LinkByName(n.temporary(d))
	if err != nil {
		return fmt.Errorf("find the device in the pod: %w", err)
	}
	err = h.LinkSetName(arrived, d.Name)
	if errors.Is(err, unix.EEXIST) {
		return ifdriver.Taken(d.Name)
	}
	if err != nil {
		return fmt.Errorf("rename the device to %s: %w", d.Name, err)
	}
	spec := d.spec()
	if err := podside.Configure(h, spec); err != nil {
		return err
	}
	// Neighbours that miss it learn the addresses by their next request.
	_ = neighbours.Announce(arrived.Attrs().Index, [6]byte(d.MAC), spec.IPs())
	return nil
}
