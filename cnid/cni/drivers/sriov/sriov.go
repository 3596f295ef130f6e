// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sriov is the driver for interfaces that are virtual functions (VFs) of a network
// device. Their packets do not pass the node: the physical function (PF) of the device
// keeps a pod to its VLAN and its Ethernet address. A VF that a program in the pod drives,
// such as one with DPDK, has no network device; a dummy in the pod has its addresses.
package sriov

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/keylock"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Kind names the driver's kind.
const Kind ifdriver.Kind = "sriov"

// Config has the decisions of the node's operator.
type Config struct {
	// Underlay permits interfaces in the network of an address of the node: without a VLAN on
	// a device that carries one, or in its VLAN.
	Underlay bool
}

// Type returns the driver's entry in a registry.
func Type(cfg Config) ifdriver.Type {
	return ifdriver.Type{Kind: Kind, Capabilities: capabilities, Maker: maker{cfg: cfg}}
}

// maker implements ifdriver.Maker. Its Probe succeeds everywhere: the device plugin knows whether the
// node has devices.
type maker struct {
	ifdriver.Supported
	cfg Config
}

// Open implements ifdriver.Maker.
func (m maker) Open(node ifdriver.Node) (ifdriver.Driver, error) { return New(m.cfg, node.Dir) }

var capabilities = ifdriver.Capabilities{Restorable: true, Device: true}

// Driver makes interfaces in pods from VFs whose PFs are in the network namespace it was
// created in. It implements ifdriver.Driver.
type Driver struct {
	cfg     Config
	sockets *rtnl.Sockets
	// space is the node's network namespace.
	space  ns.NetNS
	hostID netns.ID
	notes  sandbox.Notes[note]
	sys    sysfs
	// locks are by PCI address.
	locks *keylock.Locks
}

// New returns a Driver for the network namespace of the calling thread. It keeps notes in
// the folder of its kind in dir.
func New(cfg Config, dir string) (*Driver, error) {
	id, err := netns.Current()
	if err != nil {
		return nil, err
	}
	notes, err := sandbox.NewNotes[note](filepath.Join(dir, string(Kind)))
	if err != nil {
		return nil, err
	}
	space, err := ns.GetCurrentNS()
	if err != nil {
		return nil, fmt.Errorf("open the thread's network namespace: %w", err)
	}
	sockets, err := rtnl.NewSockets()
	if err != nil {
		return nil, errors.Join(err, space.Close())
	}
	return &Driver{
		cfg:     cfg,
		sockets: sockets,
		space:   space,
		hostID:  id,
		notes:   notes,
		sys:     defaultSysfs,
		locks:   keylock.New(),
	}, nil
}

// session is one call of a Driver, with a socket of its own in the node's namespace.
type session struct {
	*Driver
	host *rtnl.Socket
}

// with calls f with a session.
func (d *Driver) with(ctx context.Context, f func(*session) error) error {
	return d.sockets.With(ctx, func(host *rtnl.Socket) error { return f(&session{Driver: d, host: host}) })
}

// pf returns the PF of a VF for requests, with the present settings of the VF.
func (d *session) pf(f function) (byNetlink, settings, error) {
	link, err := d.host.LinkByName(f.PFName)
	if err != nil {
		return byNetlink{}, settings{}, fmt.Errorf("find %s, the physical function of %s: %w", f.PFName, f.PCI, err)
	}
	now, ok := settingsOf(link, f.Index)
	if !ok {
		return byNetlink{}, settings{}, fmt.Errorf(
			"the driver of %s reports no settings of its virtual function %d: use another device",
			f.PFName,
			f.Index,
		)
	}
	return byNetlink{d.host.Handle, link, f.Index}, now, nil
}

// Capabilities implements ifdriver.Driver.
func (d *Driver) Capabilities() ifdriver.Capabilities { return capabilities }

// HostName implements ifdriver.Driver.
func (d *Driver) HostName(string, string) string { return "" }

// Resize implements ifdriver.Driver. Nobody calls it: the interfaces follow no MTU.
func (d *Driver) Resize(context.Context, ifdriver.Spec) error { return errors.ErrUnsupported }

// Close implements ifdriver.Driver.
func (d *Driver) Close() {
	d.sockets.Close()
	_ = d.space.Close() // nothing was written
}

// List implements ifdriver.Driver. It goes by the notes. A VF whose namespace has ended is
// listed until it is released, because its settings are to be restored.
func (d *Driver) List(ctx context.Context) ([]ifdriver.Found, error) {
	notes, err := d.notes.All()
	if err != nil {
		return nil, err
	}
	var list []ifdriver.Found
	for _, n := range notes {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		pod, err := n.Open()
		if err != nil {
			return nil, err
		}
		found := n.Found(pod != nil)
		if pod != nil {
			_ = pod.Close() // nothing was written
		}
		found.PCI, found.MTU = n.PCI, n.MTU
		list = append(list, found)
	}
	return list, nil
}

// onPCI reports whether a network device belongs to a PCI device. The kernel says so in every
// network namespace, whatever name the device has there.
func onPCI(link netlink.Link, pci string) bool {
	return link.Attrs().ParentDevBus == "pci" && link.Attrs().ParentDev == pci
}
