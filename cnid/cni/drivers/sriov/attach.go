// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/carrier"
	"github.com/alioth-net/alioth/cnid/cni/drivers/devicemove"
	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/neighbours"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Attach implements ifdriver.Driver. A VF that another interface has is an error that names
// it, unless the sandbox of that interface has ended: the VF is released then.
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
	if spec.PCI == "" || len(spec.MAC) != 6 {
		return ifdriver.Link{}, fmt.Errorf("the attachment has no device or no Ethernet address: %q, %q", spec.PCI, spec.MAC)
	}
	pod, err := netns.Open(spec.NetnsPath)
	if err != nil {
		return ifdriver.Link{}, err
	}
	defer func() { _ = pod.Close() }()
	if err := podside.RefuseNode(pod, d.hostID); err != nil {
		return ifdriver.Link{}, err
	}
	if err := d.detach(ctx, spec.ContainerID, spec.IfName); err != nil {
		return ifdriver.Link{}, fmt.Errorf("remove remains of an earlier attempt: %w", err)
	}
	unlock, err := d.locks.Acquire(ctx, spec.PCI)
	if err != nil {
		return ifdriver.Link{}, err
	}
	defer unlock()
	n, err := d.take(ctx, pod, spec)
	if err == nil {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil && n.PCI != "" {
		return ifdriver.Link{}, errors.Join(err, d.release(context.WithoutCancel(ctx), n))
	}
	return ifdriver.Link{NetnsInode: n.Inode, NetnsCookie: n.Cookie}, err
}

// take makes the interface. The note that it returns is written, unless its PCI is "". The
// caller holds the lock of the VF.
func (d *session) take(ctx context.Context, pod ns.NetNS, spec ifdriver.Spec) (note, error) {
	if err := d.evict(ctx, spec); err != nil {
		return note{}, err
	}
	f, err := d.sys.function(spec.PCI)
	if err != nil {
		return note{}, err
	}
	p, now, err := d.pf(f)
	if err != nil {
		return note{}, err
	}
	if err := d.permit(p.link, spec); err != nil {
		return note{}, err
	}
	n, link, err := d.note(pod, f, now, spec)
	if err != nil {
		return note{}, err
	}
	if err := d.notes.Put(n); err != nil {
		return note{}, err
	}
	return n, d.establish(pod, p, link, n, spec)
}

// evict releases a VF that an ended sandbox had. A living one keeps it.
func (d *session) evict(ctx context.Context, spec ifdriver.Spec) error {
	notes, err := d.notes.All()
	if err != nil {
		return err
	}
	for _, n := range notes {
		if n.PCI != spec.PCI {
			continue
		}
		err := await(ctx, func() (bool, error) { return d.ended(n) })
		if errors.Is(err, errAlive) || errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf(
				"device %s is interface %s of pod %s in sandbox %s, which has not ended: end it, or give the pod another device",
				n.PCI,
				n.IfName,
				n.PodUID,
				n.ContainerID,
			)
		}
		if err != nil {
			return err
		}
		if err := d.release(ctx, n); err != nil {
			return fmt.Errorf("release device %s of the ended sandbox %s: %w", n.PCI, n.ContainerID, err)
		}
	}
	return nil
}

// errAlive reports a network namespace that is at its path.
var errAlive = errors.New("the network namespace has not ended")

// ended reports whether the network namespace of an interface has ended. A namespace that is not
// at its path may be about to end. For a namespace at its path, the error is an errAlive.
func (d *session) ended(n note) (bool, error) {
	pod, err := n.Open()
	if err != nil {
		return false, err
	}
	if pod != nil {
		_ = pod.Close() // nothing was written
		return false, errAlive
	}
	// Each namespace has the device lo.
	links, err := sandbox.LinksIn(d.host, n.Number)
	return len(links) == 0, err
}

// permit refuses an interface that the PF can't carry, or must not.
func (d *session) permit(pf netlink.Link, spec ifdriver.Spec) error {
	attrs := pf.Attrs()
	if err := podside.CheckCarrier(pf, attrs.Name, spec.MTU); err != nil || d.cfg.Underlay {
		return err
	}
	a, ok, err := carrier.Carried(
		d.host.Handle,
		attrs,
		spec.VLAN,
		func(a carrier.Address) bool { return a.IP.IsGlobalUnicast() },
	)
	if err != nil || !ok {
		return err
	}
	return fmt.Errorf(
		"device %s carries the node's address %s (on %s), and the interface would be in the network of the nodes: set another vlan of the network, use another device, or permit it (multiNetwork.underlayAttachments of the chart)",
		attrs.Name,
		a.IP,
		a.Device,
	)
}

// note describes the VF as it is. It returns its network device too, nil without one.
func (d *session) note(pod ns.NetNS, f function, now settings, spec ifdriver.Spec) (note, netlink.Link, error) {
	id, err := netns.Of(pod)
	if err != nil {
		return note{}, nil, err
	}
	number, err := sandbox.NumberOf(d.host, pod)
	if err != nil {
		return note{}, nil, err
	}
	n := note{Interface: sandbox.Of(spec, id, number), PCI: f.PCI, MTU: spec.MTU, Saved: now}
	if f.userspace() {
		return n, nil, nil
	}
	if f.Name == "" {
		return note{}, nil, fmt.Errorf(
			"device %s has driver %s, and its network device is in another network namespace than the node's: end what uses it",
			f.PCI,
			f.Driver,
		)
	}
	link, err := d.host.LinkByName(f.Name)
	if err != nil {
		return note{}, nil, fmt.Errorf("find %s, the network device of %s: %w", f.Name, f.PCI, err)
	}
	n.Device = devicemove.Of(link)
	return n, link, nil
}

// establish makes the settings, which hold before the pod has the device, and then the
// interface.
func (d *session) establish(pod ns.NetNS, p byNetlink, link netlink.Link, n note, spec ifdriver.Spec) error {
	if link != nil {
		if err := d.host.LinkSetDown(link); err != nil {
			return fmt.Errorf("set %s down: %w", n.Device.Name, err)
		}
	}
	want := wanted(n.Saved, spec)
	if err := apply(p, want, firm(n.Saved, want)); err != nil {
		return err
	}
	if link == nil {
		return podside.Within(pod, func(h *rtnl.Socket) error { return standIn(h, n, spec) })
	}
	if err := d.address(link, spec.MAC); err != nil {
		return err
	}
	if err := d.send(link, pod, n); err != nil {
		return err
	}
	return podside.Within(pod, func(h *rtnl.Socket) error { return configure(h, n, spec) })
}

// send moves the network device into the pod's namespace, under a name that no other
// device has.
func (d *session) send(link netlink.Link, pod ns.NetNS, n note) error {
	return devicemove.Move(d.host, link, int(pod.Fd()), n.temporary())
}

// configure gives a network device that has arrived its name and all that the pod gets.
func configure(h *rtnl.Socket, n note, spec ifdriver.Spec) error {
	ifindex, err := h.IndexOf(n.temporary())
	if err != nil {
		return err
	}
	data := []*nl.RtAttr{
		nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(n.Mark)),
		nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(spec.IfName)),
	}
	if spec.MTU != 0 {
		data = append(data, nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(spec.MTU))))
	}
	var b rtnl.Batch
	b.SetLink("set alias, MTU and name", ifindex, 0, 0, asData(data)...)
	if err := named(h.Execute(&b), spec); err != nil {
		return err
	}
	if err := podside.Configure(h, spec); err != nil {
		return fmt.Errorf("configure the interface: %w", err)
	}
	link, err := h.LinkByName(spec.IfName)
	if err != nil {
		return fmt.Errorf("find %s: %w", spec.IfName, err)
	}
	if mac := link.Attrs().HardwareAddr; !bytes.Equal(mac, spec.MAC) {
		return fmt.Errorf(
			"device %s keeps the Ethernet address %s, want %s: its driver takes none from its physical function",
			n.PCI,
			mac,
			spec.MAC,
		)
	}
	// Neighbours that miss it learn the addresses by their next request.
	_ = neighbours.Announce(ifindex, [6]byte(spec.MAC), spec.IPs())
	return nil
}

// named explains the error of a name that the pod has already.
func named(err error, spec ifdriver.Spec) error {
	if errors.Is(err, unix.EEXIST) {
		return ifdriver.Taken(spec.IfName)
	}
	return err
}

func asData(attrs []*nl.RtAttr) (data []nl.NetlinkRequestData) {
	for _, attr := range attrs {
		data = append(data, attr)
	}
	return data
}
