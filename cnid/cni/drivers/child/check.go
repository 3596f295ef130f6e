// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// Check implements ifdriver.Driver. It tolerates additions of others in the pod: more addresses,
// routes, rules and interfaces.
func (d *Driver) Check(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	var link ifdriver.Link
	err := d.with(ctx, func(s *session) (err error) {
		link, err = s.check(spec)
		return err
	})
	if err != nil {
		return ifdriver.Link{}, fmt.Errorf("check %s of %s: %w", spec.IfName, spec.Description, err)
	}
	return link, nil
}

func (d *session) check(spec ifdriver.Spec) (ifdriver.Link, error) {
	var mac net.HardwareAddr
	missing := func(text string) error { return d.missing(spec, text) }
	link, err := podside.Inspect(spec.NetnsPath, missing, func(h *netlink.Handle) (err error) {
		mac, err = d.checkIn(h, spec)
		return err
	})
	if err != nil {
		return ifdriver.Link{}, err
	}
	link.MAC = mac
	return link, nil
}

// checkIn compares an interface with spec, in the thread's namespace, which is the pod's. It
// returns the address that the driver has chosen, if it has.
func (d *session) checkIn(h *netlink.Handle, spec ifdriver.Spec) (net.HardwareAddr, error) {
	link, err := h.LinkByName(spec.IfName)
	if podside.IsNotFound(err) {
		return nil, d.missing(spec, "interface "+spec.IfName+" is gone")
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", spec.IfName, err)
	}
	if !noteOf(spec, netns.ID{}, 0).marks(link, d.devices.Kind) {
		return nil, d.missing(spec, "interface "+spec.IfName+" is not the one that was attached")
	}
	parent, err := d.checkParent(link, spec)
	if err != nil {
		return nil, err
	}
	spec.MAC = d.devices.macOf(spec, parent)
	return d.devices.ownMAC(spec.MAC), podside.CheckInterface(h, link, spec)
}

// checkParent compares parent and mode of an interface, and returns the parent.
func (d *session) checkParent(link netlink.Link, spec ifdriver.Spec) (netlink.Link, error) {
	mode, err := d.devices.mode(spec)
	if err != nil {
		return nil, err
	}
	parent, err := d.host.LinkByName(spec.Parent)
	if podside.IsNotFound(err) {
		return nil, podside.Mismatch("the node has no device %s any more", spec.Parent)
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", spec.Parent, err)
	}
	switch attrs := link.Attrs(); {
	case attrs.ParentIndex != parent.Attrs().Index || attrs.NetNsID < 0:
		return nil, podside.Mismatch("interface %s is not derived from device %s of the node", spec.IfName, spec.Parent)
	case d.devices.ModeOf(link) != mode:
		return nil, podside.Mismatch("interface %s has mode %s, want %s", spec.IfName, d.devices.ModeOf(link), mode)
	}
	return parent, nil
}

// missing returns the error for an interface that is not where it should be. If it is nowhere on
// the node, the error is an ErrGone.
func (d *session) missing(spec ifdriver.Spec, text string) error {
	n, noted, err := d.notes.Get(spec.ContainerID, spec.IfName)
	if err != nil {
		return err
	}
	if noted {
		found, err := d.find(n)
		if err != nil {
			return err
		}
		if found != nil {
			return podside.Mismatch("%s, and has become %s, or its namespace has another path", text, found.Attrs().Name)
		}
	}
	return podside.Gone("%s", text)
}

// find returns the interface of a note, wherever its namespace is, or nil.
func (d *session) find(n note) (netlink.Link, error) {
	links, err := sandbox.LinksIn(d.host, n.Number)
	for _, link := range links {
		if n.marks(link, d.devices.Kind) {
			return link, err
		}
	}
	return nil, err
}

// List implements ifdriver.Driver. It goes by the notes, and removes notes of ended namespaces.
func (d *Driver) List(ctx context.Context) (list []ifdriver.Found, err error) {
	err = d.with(ctx, func(s *session) error {
		list, err = s.list(ctx)
		return err
	})
	return list, err
}

func (d *session) list(ctx context.Context) ([]ifdriver.Found, error) {
	notes, err := d.notes.All()
	if err != nil {
		return nil, err
	}
	var list []ifdriver.Found
	for _, n := range notes {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		found, ok, err := d.found(n)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, found)
		}
	}
	return list, nil
}

func (d *session) found(n note) (ifdriver.Found, bool, error) {
	link, err := d.find(n)
	if err != nil {
		return ifdriver.Found{}, false, err
	}
	pod, err := n.Open()
	if err != nil {
		return ifdriver.Found{}, false, err
	}
	if link == nil && pod == nil {
		return ifdriver.Found{}, false, d.notes.Remove(n)
	}
	found := n.Found(pod != nil)
	if pod != nil {
		_ = pod.Close() // nothing was written
	}
	if link != nil {
		found.MTU, found.Link.MAC = link.Attrs().MTU, d.devices.ownMAC(link.Attrs().HardwareAddr)
	}
	return found, link != nil, nil
}
