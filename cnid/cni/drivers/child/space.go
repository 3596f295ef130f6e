// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Detach implements ifdriver.Driver.
func (d *Driver) Detach(ctx context.Context, containerID, ifName string) error {
	return d.with(ctx, func(s *session) error { return s.detach(containerID, ifName) })
}

func (d *session) detach(containerID, ifName string) error {
	n, ok, err := d.notes.Get(containerID, ifName)
	if err != nil || !ok {
		return err
	}
	if err := d.clear(n); err != nil {
		return err
	}
	return d.notes.Remove(n)
}

// clear removes an interface and its rules.
func (d *session) clear(n note) error {
	return n.Remove(d.host, func(link netlink.Link) bool { return n.made(link, d.devices.Kind) })
}

// clearBefore removes remains whose notes were lost.
func (d *session) clearBefore(h *rtnl.Socket, n note) error {
	for _, name := range []string{n.temporary(), n.IfName} {
		if _, err := h.IndexOf(name); err == nil {
			return d.clearIn(h, n)
		}
	}
	return nil
}

func (d *session) clearIn(h *rtnl.Socket, n note) error {
	return sandbox.RemoveHere(h, func(link netlink.Link) bool { return n.made(link, d.devices.Kind) })
}

// finish adds the request that gives an interface that was just made its mark, its address
// and its name, and takes it out of the group of unfinished devices. Some get the address of their
// parent when they are made, so it is set again, unless they share it.
func (d Devices) finish(b *rtnl.Batch, ifindex int, n note, spec ifdriver.Spec) {
	attrs := []nl.NetlinkRequestData{
		nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(n.Mark)),
		nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(0)),
		nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(spec.IfName)),
	}
	if !d.SharesMAC {
		attrs = append(attrs, nl.NewRtAttr(unix.IFLA_ADDRESS, spec.MAC))
	}
	b.SetLink("set alias, group, address and name", ifindex, 0, 0, attrs...)
}
