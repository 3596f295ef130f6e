// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package child makes interfaces that are derived from a device of the node, their
// parent, and have no other end on the node. Packages macvlan and ipvlan describe the
// devices of one such driver each.
package child

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/neighbours"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Devices describes the interfaces of a driver.
type Devices struct {
	// Kind is the kernel's name of such devices too.
	Kind ifdriver.Kind
	// Modes are the possible values of ifdriver.Spec.Mode; the first is the default.
	Modes []string
	// SharesMAC: an interface has the Ethernet address of its parent, and
	// ifdriver.Spec.MAC is ignored.
	SharesMAC bool
	// Requires describes the kernels that have such devices.
	Requires string
	Links
}

// Links describes the links of such devices.
type Links interface {
	// New returns the description of a new interface in one of the Modes.
	New(attrs netlink.LinkAttrs, mode string) netlink.Link
	// ModeOf returns the mode of an interface.
	ModeOf(link netlink.Link) string
	// Explain adds cause and remedy to an error of the kernel that refuses an interface in
	// a mode on a parent.
	Explain(err error, parent, mode string) error
}

// Type returns the driver of such interfaces.
func (d Devices) Type() ifdriver.Type {
	return ifdriver.Type{Kind: d.Kind, Capabilities: capabilities, Maker: d}
}

// Open implements ifdriver.Maker.
func (d Devices) Open(node ifdriver.Node) (ifdriver.Driver, error) { return New(d, node) }

// capabilities: the MTU of a network outside of every VPC does not follow the MTU of the node's
// network for VPCs.
var capabilities = ifdriver.Capabilities{Restorable: true}

// Probe implements ifdriver.Maker. It makes an interface on one end of a veth pair, in a namespace
// that ends with it.
func (d Devices) Probe(ctx context.Context) error {
	return podside.Try(ctx, func() error {
		parent := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "parent", TxQLen: -1}, PeerName: "peer"}
		if err := netlink.LinkAdd(parent); err != nil {
			return fmt.Errorf("make a device to try a %s on: %w", d.Kind, err)
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = "child", parent.Index
		return d.add(func(link netlink.Link) error { return netlink.LinkAdd(link) }, attrs, d.Modes[0])
	})
}

// add makes an interface. A kernel without such devices is an ifdriver.ErrUnsupported.
func (d Devices) add(create func(netlink.Link) error, attrs netlink.LinkAttrs, mode string) error {
	err := create(d.New(attrs, mode))
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %s: %w; they require %s", ifdriver.ErrUnsupported, d.Kind, err, d.Requires)
	}
	return err
}

// Driver makes interfaces in pods from devices of the network namespace it was created
// in. It implements ifdriver.Driver.
type Driver struct {
	devices Devices
	sockets *rtnl.Sockets
	hostID  netns.ID
	notes   sandbox.Notes[note]
	// place is ifdriver.Node.Place.
	place ifdriver.Place
}

// New returns a Driver for the network namespace of the calling thread. It has to be the
// namespace of the node.
func New(devices Devices, node ifdriver.Node) (*Driver, error) {
	id, err := netns.Current()
	if err != nil {
		return nil, err
	}
	notes, err := sandbox.NewNotes[note](filepath.Join(node.Dir, string(devices.Kind)))
	if err != nil {
		return nil, err
	}
	sockets, err := rtnl.NewSockets()
	if err != nil {
		return nil, err
	}
	return &Driver{devices: devices, sockets: sockets, hostID: id, notes: notes, place: node.Place}, nil
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

// Capabilities implements ifdriver.Driver.
func (d *Driver) Capabilities() ifdriver.Capabilities { return capabilities }

// HostName implements ifdriver.Driver.
func (d *Driver) HostName(string, string) string { return "" }

// Resize implements ifdriver.Driver. Nobody calls it: the interfaces follow no MTU.
func (d *Driver) Resize(context.Context, ifdriver.Spec) error { return errors.ErrUnsupported }

// Close implements ifdriver.Driver.
func (d *Driver) Close() { d.sockets.Close() }

// Attach implements ifdriver.Driver.
func (d *Driver) Attach(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	var link ifdriver.Link
	err := d.with(ctx, func(s *session) (err error) {
		link, err = s.attach(ctx, spec)
		return err
	})
	if err != nil {
		return ifdriver.Link{}, fmt.Errorf("attach %s of %s: %w", spec.IfName, spec.Description, err)
	}
	return link, nil
}

func (d *session) attach(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	mode, err := d.devices.mode(spec)
	if err != nil {
		return ifdriver.Link{}, err
	}
	pod, err := netns.Open(spec.NetnsPath)
	if err != nil {
		return ifdriver.Link{}, err
	}
	defer func() { _ = pod.Close() }()
	if err := podside.RefuseNode(pod, d.hostID); err != nil {
		return ifdriver.Link{}, err
	}
	parent, err := d.parent(spec)
	if err != nil {
		return ifdriver.Link{}, err
	}
	spec.MAC = d.devices.macOf(spec, parent)
	if err := d.detach(spec.ContainerID, spec.IfName); err != nil {
		return ifdriver.Link{}, fmt.Errorf("remove remains of an earlier attempt: %w", err)
	}
	var n note
	err = podside.Within(pod, func(h *rtnl.Socket) (err error) {
		if n, err = d.note(pod, spec); err != nil {
			return err
		}
		return d.create(h, pod, parent, mode, n, spec)
	})
	if err = errors.Join(err, ctx.Err()); err != nil {
		return ifdriver.Link{}, errors.Join(err, d.detach(spec.ContainerID, spec.IfName))
	}
	return ifdriver.Link{NetnsInode: n.Inode, NetnsCookie: n.Cookie, MAC: d.devices.ownMAC(spec.MAC)}, nil
}

// macOf returns the Ethernet address that a wanted interface gets on a parent.
func (d Devices) macOf(spec ifdriver.Spec, parent netlink.Link) net.HardwareAddr {
	if d.SharesMAC {
		return parent.Attrs().HardwareAddr
	}
	return spec.MAC
}

// ownMAC returns the address of an interface that the driver has chosen, nil where
// ifdriver.Spec has it.
func (d Devices) ownMAC(mac net.HardwareAddr) net.HardwareAddr {
	if d.SharesMAC {
		return mac
	}
	return nil
}

// note writes down an interface before it is made. The thread is in the pod's namespace.
func (d *session) note(pod ns.NetNS, spec ifdriver.Spec) (note, error) {
	id, err := netns.Current()
	if err != nil {
		return note{}, err
	}
	number, err := sandbox.NumberOf(d.host, pod)
	if err != nil {
		return note{}, err
	}
	n := noteOf(spec, id, number)
	return n, d.notes.Put(n)
}

// create makes the interface, in the thread's namespace, which is the pod's. It belongs to the
// group of unfinished devices until it has its mark. So a process that ends at any time leaves a
// device that can be recognized.
func (d *session) create(
	h *rtnl.Socket,
	pod ns.NetNS,
	parent netlink.Link,
	mode string,
	n note,
	spec ifdriver.Spec,
) error {
	if err := d.clearBefore(h, n); err != nil {
		return fmt.Errorf("remove remains of an earlier attempt: %w", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.Namespace = spec.IfName, parent.Attrs().Index, netlink.NsFd(pod.Fd())
	attrs.MTU, attrs.Group = spec.MTU, links.Unfinished
	if !d.devices.SharesMAC {
		attrs.HardwareAddr = spec.MAC
	}
	attrs.NumTxQueues, attrs.NumRxQueues = 1, 1
	err := d.devices.add(d.host.LinkAdd, attrs, mode)
	if errors.Is(err, unix.EEXIST) {
		if _, err := h.IndexOf(spec.IfName); err == nil {
			return ifdriver.Taken(spec.IfName)
		}
		// Linux 6.12 compares the name with the names of the node's devices, too. The change of a
		// name takes the kernel as long as a new device.
		attrs.Name = n.temporary()
		err = d.devices.add(d.host.LinkAdd, attrs, mode)
	}
	if err != nil {
		return d.devices.Explain(fmt.Errorf("create a %s on %s: %w", d.devices.Kind, spec.Parent, err), spec.Parent, mode)
	}
	return d.configure(h, n, attrs.Name, spec)
}

// configure gives a new interface its mark, its name and its settings, and announces its
// addresses. now is the name that it has.
func (d *session) configure(h *rtnl.Socket, n note, now string, spec ifdriver.Spec) error {
	ifindex, err := h.IndexOf(now)
	if err != nil {
		return err
	}
	var b rtnl.Batch
	d.devices.finish(&b, ifindex, n, spec)
	if err := podside.Plan(&b, ifindex, now, spec); err != nil {
		return fmt.Errorf("configure the interface: %w", err)
	}
	if err := h.Execute(&b); err != nil {
		return fmt.Errorf("configure the interface: %w", err)
	}
	// Neighbours that miss it learn the addresses by their next request.
	_ = neighbours.Announce(ifindex, [6]byte(spec.MAC), spec.IPs())
	return nil
}
