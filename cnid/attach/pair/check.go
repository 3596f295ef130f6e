// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/netns"
)

// Check implements attach.Driver. It tolerates what others added to the pod:
// more addresses, routes and interfaces.
func (d *Driver) Check(ctx context.Context, spec attach.Spec) (attach.Link, error) {
	if err := ctx.Err(); err != nil {
		return attach.Link{}, err
	}
	var link attach.Link
	err := d.with(func(s *session) (err error) {
		link, err = s.check(spec)
		return err
	})
	if err != nil {
		return attach.Link{}, fmt.Errorf("check %s of %s: %w", spec.IfName, spec.Description, err)
	}
	return link, nil
}

func (d *session) check(spec attach.Spec) (attach.Link, error) {
	host, err := d.checkHost(spec)
	if err != nil {
		return attach.Link{}, err
	}
	pod, err := netns.Open(spec.NetnsPath)
	if errors.Is(err, netns.ErrGone) {
		return attach.Link{}, mismatch("network namespace %s is gone", spec.NetnsPath)
	}
	if err != nil {
		return attach.Link{}, err
	}
	defer func() { _ = pod.Close() }()
	var id netns.ID
	err = inNamespace(pod, func(h *socket) error {
		if id, err = netns.Current(); err != nil {
			return err
		}
		return d.checkPod(h.Handle, host, spec)
	})
	if err != nil {
		return attach.Link{}, err
	}
	return d.describe(host, id), nil
}

// checkHost returns the host end.
func (d *session) checkHost(spec attach.Spec) (netlink.Link, error) {
	name := d.HostName(spec.ContainerID, spec.IfName)
	host, err := d.host.LinkByName(name)
	if isNotFound(err) {
		return nil, fmt.Errorf("%w: host end %s: %w", attach.ErrMismatch, name, attach.ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", name, err)
	}
	return host, checkDevice("host end", host, d.mac, spec.MTU)
}

func (d *session) checkPod(h *netlink.Handle, host netlink.Link, spec attach.Spec) error {
	link, err := h.LinkByName(spec.IfName)
	if isNotFound(err) {
		return mismatch("interface %s is gone", spec.IfName)
	}
	if err != nil {
		return fmt.Errorf("find %s: %w", spec.IfName, err)
	}
	if link.Type() != string(d.devices.Kind) || link.Attrs().ParentIndex != host.Attrs().Index {
		return mismatch("interface %s is not the other end of %s", spec.IfName, host.Attrs().Name)
	}
	if err := checkDevice("interface "+spec.IfName, link, spec.MAC, spec.MTU); err != nil {
		return err
	}
	if err := checkAddrs(h, link, spec.Addrs); err != nil {
		return err
	}
	return checkRoutes(h, link, spec.Gateways)
}

func checkDevice(what string, link netlink.Link, mac net.HardwareAddr, mtu int) error {
	attrs := link.Attrs()
	switch {
	case attrs.Flags&net.FlagUp == 0:
		return mismatch("%s is down", what)
	case !bytes.Equal(attrs.HardwareAddr, mac):
		return mismatch("%s has MAC %s, want %s", what, attrs.HardwareAddr, mac)
	case attrs.MTU != mtu:
		return mismatch("%s has MTU %d, want %d", what, attrs.MTU, mtu)
	}
	return nil
}

func checkAddrs(h *netlink.Handle, link netlink.Link, want []netip.Prefix) error {
	list, err := dump(func() ([]netlink.Addr, error) { return h.AddrList(link, unix.AF_UNSPEC) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, addr := range want {
		same := func(a netlink.Addr) bool { return a.IPNet.String() == addr.String() }
		if !slices.ContainsFunc(list, same) {
			return mismatch("address %s is gone", addr)
		}
	}
	return nil
}

func checkRoutes(h *netlink.Handle, link netlink.Link, gateways []netip.Addr) error {
	list, err := dump(func() ([]netlink.Route, error) { return h.RouteList(link, unix.AF_UNSPEC) })
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, gateway := range gateways {
		same := func(r netlink.Route) bool { return isDefault(r.Dst) && r.Gw.Equal(gateway.AsSlice()) }
		if !slices.ContainsFunc(list, same) {
			return mismatch("default route by %s is gone", gateway)
		}
	}
	return nil
}

func isDefault(dst *net.IPNet) bool {
	if dst == nil {
		return true
	}
	ones, _ := dst.Mask.Size()
	return ones == 0
}

func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: %s", attach.ErrMismatch, fmt.Sprintf(format, args...))
}

// maxDumps limits the attempts at a consistent dump.
const maxDumps = 10

// dump repeats a netlink dump that a change in the kernel interrupted, which
// would otherwise give an incomplete list.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	for range maxDumps - 1 {
		out, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.EINTR) {
			return out, err
		}
	}
	return list()
}
