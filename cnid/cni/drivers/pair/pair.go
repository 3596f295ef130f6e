// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pair attaches a pod by a pair of virtual devices: one end in the pod with the
// name that the runtime requests, one on the node for the datapath's programs. The
// drivers differ only in their Devices.
//
// The host end has one fixed MAC address, the same for every pod, and no ARP: it is the
// pod's only neighbour, and the datapath sets the destination MAC of packets to the pod.
// The pod's end has all addresses before it is up, and nothing that the kernel would add
// by itself: no link-local address, no router advertisements, no duplicate address
// detection. Pods are L3, and the operator assigns each address once.
package pair

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// HostPrefix starts the name of every host end, and of no other device of Alioth.
const HostPrefix = hostdev.PodPrefix

// Driver makes pairs of one kind between the network namespace it was created
// in and pods. It implements ifdriver.Driver.
type Driver struct {
	devices Devices
	sockets *rtnl.Sockets
	states  operStates
	hostID  netns.ID
	mac     net.HardwareAddr
	periods *periods
}

// session is one call of a Driver, with a socket of its own in the node's namespace.
type session struct {
	*Driver
	host *rtnl.Socket
}

// with calls f with a session.
func (d *Driver) with(f func(*session) error) error {
	host, err := d.sockets.Take()
	if err != nil {
		return err
	}
	defer d.sockets.GiveBack(host)
	return f(&session{Driver: d, host: host})
}

// New returns a Driver for the network namespace of the calling thread. All
// host ends get the address hostMAC.
func New(devices Devices, hostMAC net.HardwareAddr) (*Driver, error) {
	id, err := netns.Current()
	if err != nil {
		return nil, err
	}
	sockets, err := rtnl.NewSockets()
	if err != nil {
		return nil, err
	}
	states, err := newOperStates()
	if err != nil {
		sockets.Close()
		return nil, err
	}
	return &Driver{
		devices: devices,
		sockets: sockets,
		states:  states,
		hostID:  id,
		mac:     hostMAC,
		periods: newPeriods(),
	}, nil
}

// Capabilities implements ifdriver.Driver.
func (d *Driver) Capabilities() ifdriver.Capabilities { return d.devices.capabilities() }

// Close implements ifdriver.Driver.
func (d *Driver) Close() {
	d.sockets.Close()
	d.states.close()
}

// HostName implements ifdriver.Driver. The name has the 15 characters that a
// name may have.
func (d *Driver) HostName(containerID, ifName string) string {
	return ifdriver.DeviceName(HostPrefix, containerID, ifName)
}

// Attach implements ifdriver.Driver.
func (d *Driver) Attach(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	var link ifdriver.Link
	err := d.with(func(s *session) (err error) {
		link, err = s.attach(ctx, spec)
		return err
	})
	if err != nil {
		return ifdriver.Link{}, fmt.Errorf("attach %s of %s: %w", spec.IfName, spec.Description, err)
	}
	return link, nil
}

func (d *session) attach(ctx context.Context, spec ifdriver.Spec) (ifdriver.Link, error) {
	pod, err := netns.Open(spec.NetnsPath)
	if err != nil {
		return ifdriver.Link{}, err
	}
	defer func() { _ = pod.Close() }()
	host, err := d.createPair(ctx, pod, spec)
	if err != nil {
		return ifdriver.Link{}, err
	}
	id, err := d.configure(ctx, pod, host, spec)
	if err != nil {
		return ifdriver.Link{}, errors.Join(err, d.remove(host))
	}
	return d.describe(host, id), nil
}

func (d *session) describe(host netlink.Link, id netns.ID) ifdriver.Link {
	return ifdriver.Link{
		HostIfName: host.Attrs().Name, HostIfindex: host.Attrs().Index, HostMAC: host.Attrs().HardwareAddr,
		NetnsInode: id.Inode, NetnsCookie: id.Cookie,
	}
}

// createPair makes both ends, each in its namespace from the beginning, so
// that no name in the node's namespace can be in the way of the pod's end.
func (d *session) createPair(ctx context.Context, pod ns.NetNS, spec ifdriver.Spec) (netlink.Link, error) {
	if err := podside.RefuseNode(pod, d.hostID); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	pair := d.devices.Ends(d.hostEnd(spec), podEnd(spec, pod))
	err := d.host.LinkAdd(pair)
	if errors.Is(err, unix.EEXIST) {
		// Either end's name is taken. The host end's can only be from an
		// earlier attempt at this attachment, whose other end went with it.
		if err := d.detach(pair.Attrs().Name); err != nil {
			return nil, fmt.Errorf("remove remains of an earlier attempt: %w", err)
		}
		pair.Attrs().Index = 0
		err = d.host.LinkAdd(pair)
	}
	if errors.Is(err, unix.EEXIST) {
		return nil, ifdriver.Taken(spec.IfName)
	}
	if err != nil {
		return nil, fmt.Errorf("create %s pair: %w", d.devices.Kind, err)
	}
	return pair, nil
}

func (d *session) hostEnd(spec ifdriver.Spec) netlink.LinkAttrs {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = d.HostName(spec.ContainerID, spec.IfName)
	attrs.HardwareAddr, attrs.MTU, attrs.Group = d.mac, spec.MTU, hostdev.PodGroup
	// A pair made with a queue for each CPU uses one, too, but gives the others back at once. The
	// kernel waits for this, and holds the lock that every change of a device on the machine
	// needs.
	attrs.NumTxQueues, attrs.NumRxQueues = 1, 1
	return attrs
}

func podEnd(spec ifdriver.Spec, pod ns.NetNS) netlink.LinkAttrs {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = spec.IfName, spec.MAC, spec.MTU
	attrs.Namespace = netlink.NsFd(pod.Fd())
	return attrs
}

func (d *session) configure(
	ctx context.Context,
	pod ns.NetNS,
	host netlink.Link,
	spec ifdriver.Spec,
) (netns.ID, error) {
	if err := d.configureHost(host, spec); err != nil {
		return netns.ID{}, fmt.Errorf("configure host end: %w", err)
	}
	ready := d.periods.filtersReady()
	var id netns.ID
	err := podside.Within(pod, func(h *rtnl.Socket) error {
		var err error
		if id, err = netns.Current(); err != nil {
			return err
		}
		return podside.Configure(h, spec)
	})
	if err != nil {
		return netns.ID{}, fmt.Errorf("configure the pod's end: %w", err)
	}
	d.states.awaitUp(ctx, host.Attrs().Name)
	select {
	case <-ready:
	case <-ctx.Done():
	}
	return id, ctx.Err()
}

// configureHost brings the host end up. It has no ARP and no IPv6 link-local
// address: the node must not talk to the pod on its own account. It has the
// qdisc for the programs to come, because a device that is up is stopped while
// it gets one, and the kernel waits for that under its lock.
func (d *session) configureHost(host netlink.Link, spec ifdriver.Spec) error {
	var b rtnl.Batch
	ifindex := host.Attrs().Index
	settings := []nl.NetlinkRequestData{nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(ifdriver.Mark(spec)))}
	if podside.KernelHasIPv6() {
		settings = append(settings, rtnl.NoLinkLocal())
	}
	b.SetLink("set alias and no ARP", ifindex, unix.IFF_NOARP, unix.IFF_NOARP, settings...)
	if err := podside.Settle(&b, ifindex, host.Attrs().Name); err != nil {
		return err
	}
	addClsact(&b, ifindex)
	b.SetUp("set up", ifindex)
	return d.host.Execute(&b)
}

// addClsact adds the qdisc that programs of the datapath are attached to.
func addClsact(b *rtnl.Batch, ifindex int) {
	msg := &nl.TcMsg{Ifindex: int32(ifindex), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
	b.Add(
		"add a clsact qdisc",
		unix.RTM_NEWQDISC,
		unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		msg,
		nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("clsact")),
	)
}

// Detach implements ifdriver.Driver. The pod's end goes with the host end.
func (d *Driver) Detach(ctx context.Context, containerID, ifName string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.with(func(s *session) error { return s.detach(d.HostName(containerID, ifName)) })
}

func (d *session) detach(hostName string) error {
	link, err := d.host.LinkByName(hostName)
	if podside.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find %s: %w", hostName, err)
	}
	return d.remove(link)
}

// remove deletes the device, which the end of the pod's namespace may do first.
func (d *session) remove(link netlink.Link) error {
	err := d.host.LinkDel(link)
	if err != nil && !podside.IsNotFound(err) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete %s: %w", link.Attrs().Name, err)
	}
	return nil
}
