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
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Kind names the driver's kind.
const Kind ifdriver.Kind = "bridge"

// Driver implements ifdriver.Driver.
type Driver struct {
	// Sandboxes returns the files that refer to the pods' network namespaces. The driver looks
	// for its interfaces there.
	Sandboxes func() []string
}

// Type returns the driver's line for a registry. sandboxes is Driver.Sandboxes.
func Type(sandboxes func() []string) ifdriver.Type {
	driver := Driver{Sandboxes: sandboxes}
	return ifdriver.Type{Kind: Kind, Capabilities: driver.Capabilities(), Maker: maker{driver: driver}}
}

type maker struct {
	ifdriver.Supported
	driver Driver
}

// Open implements ifdriver.Maker.
func (m maker) Open(ifdriver.Node) (ifdriver.Driver, error) { return m.driver, nil }

// Capabilities implements ifdriver.Driver.
func (d Driver) Capabilities() ifdriver.Capabilities { return ifdriver.Capabilities{Restorable: true} }

// HostName implements ifdriver.Driver.
func (d Driver) HostName(string, string) string { return "" }

// Attach implements ifdriver.Driver.
func (d Driver) Attach(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	if err := d.Detach(ctx, spec.ContainerID, spec.IfName); err != nil {
		return ifdriver.Link{}, err
	}
	return within(spec.NetnsPath, func(h *rtnl.Socket) error {
		if _, err := net.InterfaceByName(spec.IfName); err == nil {
			return fmt.Errorf("%s: %w", spec.IfName, ifdriver.ErrExists)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.HardwareAddr, attrs.MTU = spec.IfName, spec.MAC, spec.MTU
		link := &netlink.Bridge{LinkAttrs: attrs}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetAlias(link, ifdriver.Mark(spec)), podside.Configure(h, spec))
	})
}

// Detach implements ifdriver.Driver.
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

// Check implements ifdriver.Driver.
func (d Driver) Check(_ context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	link, err := within(spec.NetnsPath, func(*rtnl.Socket) error {
		iface, err := net.InterfaceByName(spec.IfName)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", ifdriver.ErrMismatch, ifdriver.ErrGone)
		case !bytes.Equal(iface.HardwareAddr, spec.MAC):
			return fmt.Errorf("%w: it has MAC %s", ifdriver.ErrMismatch, iface.HardwareAddr)
		}
		return nil
	})
	if errors.Is(err, netns.ErrGone) {
		return link, fmt.Errorf("%w: %w", ifdriver.ErrMismatch, ifdriver.ErrGone)
	}
	return link, err
}

// Resize implements ifdriver.Driver. Nobody calls it: the interfaces follow no MTU.
func (d Driver) Resize(context.Context, ifdriver.Spec) error { return errors.ErrUnsupported }

// Close implements ifdriver.Driver.
func (d Driver) Close() {}

// List implements ifdriver.Driver.
func (d Driver) List(context.Context) ([]ifdriver.Found, error) {
	var list []ifdriver.Found
	for _, path := range d.Sandboxes() {
		var here []ifdriver.Found
		link, err := within(path, func(*rtnl.Socket) error {
			links, err := rtnl.Complete(netlink.LinkList)
			for _, link := range links {
				found, ok := ifdriver.Marked(link.Attrs().Alias)
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
func within(path string, f func(*rtnl.Socket) error) (link ifdriver.Link, err error) {
	pod, err := netns.Open(path)
	if err != nil {
		return link, err
	}
	defer func() { _ = pod.Close() }()
	id, err := netns.Of(pod)
	return ifdriver.Link{NetnsInode: id.Inode, NetnsCookie: id.Cookie}, errors.Join(err, podside.Within(pod, f))
}
