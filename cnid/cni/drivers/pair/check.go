// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Check implements ifdriver.Driver. It tolerates additions of others in the pod: more addresses,
// routes and interfaces.
func (d *Driver) Check(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	if err := ctx.Err(); err != nil {
		return ifdriver.Link{}, err
	}
	var link ifdriver.Link
	err := d.with(func(s *session) (err error) {
		link, err = s.check(spec)
		return err
	})
	if err != nil {
		return ifdriver.Link{}, fmt.Errorf("check %s of %s: %w", spec.IfName, spec.Description, err)
	}
	return link, nil
}

func (d *session) check(spec ifdriver.Spec) (ifdriver.Link, error) {
	host, err := d.checkHost(spec)
	if err != nil {
		return ifdriver.Link{}, err
	}
	pod, err := netns.Open(spec.NetnsPath)
	if errors.Is(err, netns.ErrGone) {
		return ifdriver.Link{}, podside.Mismatch("network namespace %s is gone", spec.NetnsPath)
	}
	if err != nil {
		return ifdriver.Link{}, err
	}
	defer func() { _ = pod.Close() }()
	var id netns.ID
	err = podside.Within(pod, func(h *rtnl.Socket) error {
		if id, err = netns.Current(); err != nil {
			return err
		}
		return d.checkPod(h.Handle, host, spec)
	})
	if err != nil {
		return ifdriver.Link{}, err
	}
	return d.describe(host, id), nil
}

// checkHost returns the host end.
func (d *session) checkHost(spec ifdriver.Spec) (netlink.Link, error) {
	name := d.HostName(spec.ContainerID, spec.IfName)
	host, err := d.host.LinkByName(name)
	if podside.IsNotFound(err) {
		return nil, fmt.Errorf("%w: host end %s: %w", ifdriver.ErrMismatch, name, ifdriver.ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	return host, podside.CheckDevice("host end", host, d.mac, spec.MTU)
}

func (d *session) checkPod(h *netlink.Handle, host netlink.Link, spec ifdriver.Spec) error {
	link, err := h.LinkByName(spec.IfName)
	if podside.IsNotFound(err) {
		return podside.Mismatch("interface %s is gone", spec.IfName)
	}
	if err != nil {
		return fmt.Errorf("find %s: %w", spec.IfName, err)
	}
	if link.Type() != string(d.devices.Kind) || link.Attrs().ParentIndex != host.Attrs().Index {
		return podside.Mismatch("interface %s is not the other end of %s", spec.IfName, host.Attrs().Name)
	}
	if err := podside.CheckDevice("interface "+spec.IfName, link, spec.MAC, spec.MTU); err != nil {
		return err
	}
	if err := podside.CheckAddrs(h, link, spec.Addrs); err != nil {
		return err
	}
	return podside.CheckRoutes(h, link, spec)
}
