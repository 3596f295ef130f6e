// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"context"
	"fmt"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Resize implements ifdriver.Driver. Routes have no MTU of their own, so they
// follow the device's; connections that are open follow with their next packet.
func (d *Driver) Resize(ctx context.Context, spec ifdriver.Spec) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.with(func(s *session) error { return s.resize(spec) }); err != nil {
		return fmt.Errorf("set MTU %d of %s of %s: %w", spec.MTU, spec.IfName, spec.Description, err)
	}
	return nil
}

func (d *session) resize(spec ifdriver.Spec) error {
	host, err := d.host.LinkByName(d.HostName(spec.ContainerID, spec.IfName))
	if podside.IsNotFound(err) {
		return ifdriver.ErrGone
	}
	if err != nil {
		return err
	}
	pod, err := netns.Open(spec.NetnsPath)
	if err != nil {
		return err
	}
	defer func() { _ = pod.Close() }()
	return podside.Within(pod, func(h *rtnl.Socket) error {
		link, err := h.LinkByName(spec.IfName)
		if podside.IsNotFound(err) || err == nil && link.Attrs().ParentIndex != host.Attrs().Index {
			return podside.Mismatch("interface %s is gone or was replaced", spec.IfName)
		}
		if err != nil || link.Attrs().MTU == spec.MTU {
			return err
		}
		return h.LinkSetMTU(link, spec.MTU)
	})
}
