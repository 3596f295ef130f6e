// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// List implements ifdriver.Driver. The name of a host end depends on container and
// interface, so a copied alias on another device is ignored.
func (d *Driver) List(ctx context.Context) (list []ifdriver.Found, err error) {
	err = d.with(func(s *session) error {
		list, err = s.list(ctx)
		return err
	})
	return list, err
}

func (d *session) list(ctx context.Context) ([]ifdriver.Found, error) {
	links, err := rtnl.Complete(d.host.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	slices.SortFunc(links, func(x, y netlink.Link) int { return cmp.Compare(x.Attrs().Index, y.Attrs().Index) })
	var list []ifdriver.Found
	for _, link := range links {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		found, ok := ifdriver.Marked(link.Attrs().Alias)
		if !ok || link.Type() != string(d.devices.Kind) || link.Attrs().Name != d.HostName(found.ContainerID, found.IfName) {
			continue
		}
		// An earlier release made host ends without a group.
		if link.Attrs().Group != hostdev.PodGroup {
			if err := d.host.LinkSetGroup(link, int(hostdev.PodGroup)); err != nil && !podside.IsNotFound(err) {
				return nil, fmt.Errorf("set the group of %s: %w", link.Attrs().Name, err)
			}
		}
		found.MTU = link.Attrs().MTU
		found.Link = d.describe(link, d.otherEnd(link, found.NetnsPath))
		list = append(list, found)
	}
	return list, nil
}

// otherEnd identifies the network namespace of a host end's other end, if that
// is the one at path.
func (d *session) otherEnd(host netlink.Link, path string) netns.ID {
	pod, err := netns.Open(path)
	if err != nil {
		return netns.ID{}
	}
	defer func() { _ = pod.Close() }()
	number, err := d.host.GetNetNsIdByFd(int(pod.Fd()))
	if err != nil || number != host.Attrs().NetNsID {
		return netns.ID{}
	}
	id, err := netns.Identify(path)
	if err != nil {
		return netns.ID{}
	}
	return id
}
