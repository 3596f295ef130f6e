// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
)

// Check implements ifdriver.Driver. It compares the interface in the pod, and the settings of its
// VF. It tolerates additions of others in the pod.
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
	n, noted, err := d.notes.Get(spec.ContainerID, spec.IfName)
	if err != nil {
		return ifdriver.Link{}, err
	}
	if !noted || n.PCI != spec.PCI {
		return ifdriver.Link{}, podside.Gone("device %s was not given to this sandbox, or was released", spec.PCI)
	}
	missing := func(text string) error { return d.missing(n, text) }
	link, err := podside.Inspect(spec.NetnsPath, missing, func(h *netlink.Handle) error { return d.checkIn(h, n, spec) })
	if err == nil {
		err = d.checkSettings(n, spec)
	}
	if err != nil {
		return ifdriver.Link{}, err
	}
	return link, nil
}

func (d *session) checkIn(h *netlink.Handle, n note, spec ifdriver.Spec) error {
	link, err := h.LinkByName(spec.IfName)
	if podside.IsNotFound(err) {
		return d.missing(n, "interface "+spec.IfName+" is gone")
	}
	if err != nil {
		return fmt.Errorf("find %s: %w", spec.IfName, err)
	}
	if !n.is(link) {
		return d.missing(n, "interface "+spec.IfName+" is not device "+n.PCI)
	}
	return podside.CheckInterface(h, link, spec)
}

// is reports whether a device of the pod is the interface.
func (n note) is(link netlink.Link) bool {
	if n.Device == nil {
		return n.standsIn(link)
	}
	return onPCI(link, n.PCI)
}

// checkSettings compares the settings of the VF.
func (d *session) checkSettings(n note, spec ifdriver.Spec) error {
	f, err := d.sys.function(n.PCI)
	if err != nil {
		return podside.Mismatch("%v", err)
	}
	_, now, err := d.pf(f)
	if err != nil {
		return podside.Mismatch("%v", err)
	}
	if difference := compare(now, wanted(n.Saved, spec)); difference != "" {
		return podside.Mismatch("device %s lacks the setting %s", n.PCI, difference)
	}
	return nil
}

// missing returns the error for an interface that is not where it should be. If it is nowhere in
// the pod, the error is an ErrGone.
func (d *session) missing(n note, text string) error {
	links, err := sandbox.LinksIn(d.host, n.Number)
	if err != nil {
		return err
	}
	for _, link := range links {
		if n.is(link) {
			return podside.Mismatch("%s, and has become %s, or its namespace has another path", text, link.Attrs().Name)
		}
	}
	return podside.Gone("%s", text)
}
