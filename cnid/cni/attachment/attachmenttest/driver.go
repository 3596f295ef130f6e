// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attachmenttest has a driver for tests whose interfaces have no end on the node and no
// datapath, like interfaces of SR-IOV, ipvlan and macvlan: a bridge without ports in the pod
// stands for them on every kernel.
package attachmenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/interfaces/attach"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Kind names the driver's kind.
const Kind attach.Kind = "bridge"

// Driver implements attach.Driver.
type Driver struct {
	// Sandboxes returns the files that refer to the pods' network namespaces. The driver looks
	// for its interfaces there.
	Sandboxes func() []string
}

// Type returns the driver's line for a registry. sandboxes is Driver.Sandboxes.
func Type(sandboxes func() []string) attach.Type {
	driver := Driver{Sandboxes: sandboxes}
	return attach.Type{Kind: Kind, Capabilities: driver.Capabilities(), Maker: maker{driver: driver}}
}

type maker struct {
	attach.Supported
	driver Driver
}

// Open implements attach.Maker.
func (m maker) Open(attach.Node) (attach.Driver, error) { return m.driver, nil }

// Capabilities implements attach.Driver.
func (d Driver) Capabilities() attach.Capabilities { return attach.Capabilities{Restorable: true} }

// HostName implements attach.Driver.
func (d Driver) HostName(string, string) string { return "" }

// Attach implements attach.Driver.
func (d Driver) Attach(ctx context.Context, spec attach.Spec) (attach.Link, error) {
	if err := d.Detach(ctx, spec.ContainerID, spec.IfName); err != nil {
		return attach.Link{}, err
	}
	return within(spec.NetnsPath, func(h *rtnl.Socket) error {
		if _, err := net.InterfaceByName(spec.IfName); err == nil {
			return fmt.Errorf("%s: %w", spec.IfName, attach.ErrExists)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr, attrs.MTU = spec.IfName, spec.MAC, spec.MTU
		link := &netlink.Bridge{LinkAttrs: attrs}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetAlias(link, attach.Mark(spec)), podside.Configure(h, spec))
	})
}

// Detach implements attach.Driver.
func (d Driver) Detach(ctx context.Context, containerID, ifName string) error {
	list, err := d.List(ctx)
	for _, found := range list {
		if found.ContainerID != containerID || found.IfName != ifName {
			continue
		}
		_, gone := within(found.NetnsPath, func(*rtnl.Socket) error {
			link, err := netlink.LinkByName(ifName)
			if err != nil {
				return err
			}
			return netlink.LinkDel(link)
		})
		err = errors.Join(err, gone)
	}
	return err
}

// Check implements attach.Driver.
func (d Driver) Check(_ context.Context, spec attach.Spec) (attach.Link, error) {
	link, err := within(spec.NetnsPath, func(*rtnl.Socket) error {
		iface, err := net.InterfaceByName(spec.IfName)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", attach.ErrMismatch, attach.ErrGone)
		case !bytes.Equal(iface.HardwareAddr, spec.MAC):
			return fmt.Errorf("%w: it has MAC %s", attach.ErrMismatch, iface.HardwareAddr)
		}
		return nil
	})
	if errors.Is(err, netns.ErrGone) {
		return link, fmt.Errorf("%w: %w", attach.ErrMismatch, attach.ErrGone)
	}
	return link, err
}

// Resize implements attach.Driver. Nobody calls it: the interfaces follow no MTU.
func (d Driver) Resize(context.Context, attach.Spec) error { return errors.ErrUnsupported }

// Close implements attach.Driver.
func (d Driver) Close() {}

// List implements attach.Driver.
func (d Driver) List(context.Context) ([]attach.Found, error) {
	var list []attach.Found
	for _, path := range d.Sandboxes() {
		var here []attach.Found
		link, err := within(path, func(*rtnl.Socket) error {
			links, err := rtnl.Complete(netlink.LinkList)
			for _, link := range links {
				found, ok := attach.Marked(link.Attrs().Alias)
				if ok && link.Type() == string(Kind) && link.Attrs().Name == found.IfName && found.NetnsPath == path {
					found.MTU = link.Attrs().MTU
					here = append(here, found)
				}
			}
			return err
		})
		if errors.Is(err, netns.ErrGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, found := range here {
			found.Link = link
			list = append(list, found)
		}
	}
	return list, nil
}

// within runs f in the network namespace at path, and identifies that.
func within(path string, f func(*rtnl.Socket) error) (link attach.Link, err error) {
	pod, err := netns.Open(path)
	if err != nil {
		return link, err
	}
	defer func() { _ = pod.Close() }()
	id, err := netns.Of(pod)
	return attach.Link{NetnsInode: id.Inode, NetnsCookie: id.Cookie}, errors.Join(err, podside.Within(pod, f))
}
