// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// Do executes one step. It accepts the deletion of a missing object, and the addition of an
// object that exists with the same values. For a step on the resolver it returns
// errors.ErrUnsupported.
func (k *Kernel) Do(ctx context.Context, step plan.Step) error {
	do := k.onInterfaces
	switch step.(type) {
	case plan.SetAutomatic, plan.AddAddress, plan.RemoveAddress,
		plan.AddRoute, plan.RemoveRoute, plan.AddRule, plan.RemoveRule:
		do = k.onAddresses
	}
	if err := do(ctx, step); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}

func (k *Kernel) onInterfaces(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.Delete:
		return k.remove(ctx, s)
	case plan.Create:
		return k.create(ctx, s.Interface)
	case plan.Change:
		return k.change(ctx, s.Interface)
	case plan.Enslave:
		return k.enslave(ctx, s)
	case plan.PortChange:
		return k.changePort(ctx, s)
	case plan.Unfilter:
		return k.unfilter(ctx, s.Bridge)
	case plan.SetUp:
		return k.activate(ctx, s.Name, true)
	case plan.SetDown:
		return k.activate(ctx, s.Name, false)
	case plan.SetFamily:
		return k.setFamily(ctx, s)
	case plan.SetForwarding:
		return k.setForwarding(ctx, s)
	case plan.SetVFs:
		return k.setVFs(ctx, s)
	default:
		return fmt.Errorf("the kernel has no such thing: %w", errors.ErrUnsupported)
	}
}

func (k *Kernel) onAddresses(ctx context.Context, step plan.Step) error {
	switch s := step.(type) {
	case plan.SetAutomatic:
		return k.setAutomatic(ctx, s)
	case plan.AddAddress:
		return k.addAddress(ctx, s)
	case plan.RemoveAddress:
		return k.removeAddress(ctx, s)
	case plan.AddRoute:
		return k.addRoute(ctx, s)
	case plan.RemoveRoute:
		return k.removeRoute(ctx, s)
	case plan.AddRule:
		return k.addRule(ctx, s)
	case plan.RemoveRule:
		return k.removeRule(ctx, s)
	default:
		return errors.ErrUnsupported
	}
}

func (k *Kernel) remove(ctx context.Context, step plan.Delete) error {
	l, err := k.link(ctx, step.Name)
	if errors.Is(err, errNoDevice) {
		return nil
	}
	if err != nil {
		return err
	}
	return unless(k.tell(ctx, unix.RTM_DELLINK, 0, l.Header()), unix.ENODEV)
}

// create makes a device. One of its name and type that is there already gets the settings.
func (k *Kernel) create(ctx context.Context, want document.Interface) error {
	made, ok := convert.KindByName(want.Type)
	if !ok {
		return fmt.Errorf("type: the engine makes no interfaces of type %s: %w", want.Type, errors.ErrUnsupported)
	}
	list, err := k.creation(ctx, made, want)
	if err != nil {
		return err
	}
	err = k.tell(
		ctx,
		unix.RTM_NEWLINK,
		unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		convert.Requests(nl.NewIfInfomsg(unix.AF_UNSPEC), list)...)
	if errors.Is(err, unix.EEXIST) {
		return k.adopt(ctx, want, err)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf(
			"this kernel has no devices of type %s, or lacks an option of them (module %s): %w",
			want.Type,
			made.Module,
			err,
		)
	}
	if err != nil {
		return err
	}
	return k.complete(ctx, want)
}

// complete gives a new device what the kernel does not set together with it: the alias, and
// the MTU of a bridge.
func (k *Kernel) complete(ctx context.Context, want document.Interface) error {
	left := document.Interface{Name: want.Name, Type: want.Type}
	if want.Type == document.LinuxBridge {
		left.MTU = want.MTU
	}
	if want.Description != nil && *want.Description != "" {
		left.Description = want.Description
	}
	if left.MTU == nil && left.Description == nil {
		return nil
	}
	return k.change(ctx, left)
}

// adopt gives an existing device the settings of a device to be made. If the name is free, the
// kernel refused the new device because of another device.
func (k *Kernel) adopt(ctx context.Context, want document.Interface, refusal error) error {
	l, err := k.link(ctx, want.Name)
	if errors.Is(err, errNoDevice) {
		return fmt.Errorf("another interface has what is its own, such as a VLAN's number on its base: %w", refusal)
	}
	if err != nil {
		return err
	}
	v, err := k.view(ctx)
	if err != nil {
		return err
	}
	if now := v.Show(l); now.Type != want.Type || compare.Recreated(now, want) {
		return fmt.Errorf(
			"the host has an interface %s of type %s with other settings: delete it first: %w",
			want.Name,
			now.Type,
			unix.EEXIST,
		)
	}
	return k.change(ctx, want)
}

// creation are the attributes of a new device.
func (k *Kernel) creation(ctx context.Context, made convert.Kind, want document.Interface) ([]*nl.RtAttr, error) {
	list := convert.Settings{convert.ZeroEnded(unix.IFLA_IFNAME, want.Name)}
	if want.Type == document.LinuxBridge && want.MTU != nil {
		want.MTU = new(anotherMTU(*want.MTU))
	}
	if err := list.Common(want); err != nil {
		return nil, err
	}
	if base := want.Base(); base != "" && want.VXLAN == nil {
		link, err := k.named(ctx, unix.IFLA_LINK, base)
		if err != nil {
			return nil, fmt.Errorf("base-iface: %w", err)
		}
		list.Add(link)
	}
	info, err := made.Info(k.request(ctx, want, nil))
	list.Add(info)
	return list, err
}

// anotherMTU returns an MTU that differs from the wanted one. A bridge has the least MTU of its
// ports unless its own MTU was changed. The kernel does not count the MTU of the creation, or the
// present MTU, as a change.
func anotherMTU(mtu int) int {
	const least = 68 // RFC 791
	if mtu > least {
		return mtu - 1
	}
	return mtu + 1
}

// change applies settings of a device.
func (k *Kernel) change(ctx context.Context, want document.Interface) error {
	l, err := k.link(ctx, want.Name)
	if err != nil {
		return err
	}
	var list convert.Settings
	if err := list.Common(want); err != nil {
		return err
	}
	if want.Description != nil {
		list.Add(nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(*want.Description)))
	}
	if len(list) > 0 {
		if err := k.modify(ctx, l, list...); err != nil {
			return err
		}
	}
	if err := k.changeAltNames(ctx, l, want.AltNames); err != nil {
		return fmt.Errorf("alt-names: %w", err)
	}
	if all := want.AcceptAllMACAddresses; all != nil {
		if err := k.flag(ctx, l, unix.IFF_PROMISC, *all); err != nil {
			return fmt.Errorf("accept-all-mac-addresses: %w", err)
		}
	}
	return k.changeKind(ctx, l, want)
}

// changeKind applies settings that only a type has.
func (k *Kernel) changeKind(ctx context.Context, l convert.Link, want document.Interface) error {
	changed, ok := convert.KindByDriver(l.Driver)
	if !ok {
		return nil
	}
	r := k.request(ctx, want, &l)
	data, err := changed.Data(r)
	if err != nil || len(data) == 0 {
		return err
	}
	info, err := changed.Info(r)
	if err != nil {
		return err
	}
	return k.modify(ctx, l, info)
}

// enslave makes a device a port, or none.
func (k *Kernel) enslave(ctx context.Context, step plan.Enslave) error {
	port, err := k.link(ctx, step.Port)
	if err != nil {
		return err
	}
	controller := convert.Link{}
	if step.Controller != "" {
		if controller, err = k.link(ctx, step.Controller); err != nil {
			return err
		}
	}
	if port.Controller == controller.Index {
		return nil
	}
	if controller.Driver == "bond" && port.Up() {
		// A bond refuses ports that are up, and sets them up itself.
		if err := k.flag(ctx, port, unix.IFF_UP, false); err != nil {
			return err
		}
	}
	return k.modify(ctx, port, convert.Sized(unix.IFLA_MASTER, 4, controller.Index))
}

func (k *Kernel) activate(ctx context.Context, name string, up bool) error {
	// The kernel finds the device by its name.
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Change, header.Flags = unix.IFF_UP, unix.IFF_UP*convert.Bit(up)
	err := k.tell(ctx, unix.RTM_NEWLINK, 0, header, convert.ZeroEnded(unix.IFLA_IFNAME, name))
	if errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%s: %w", name, errNoDevice)
	}
	return err
}

// setForwarding has a family of an interface forward packets, or not.
func (k *Kernel) setForwarding(ctx context.Context, step plan.SetForwarding) error {
	if _, err := k.link(ctx, step.Name); err != nil {
		return err
	}
	family := ipfamily.IPv4
	if step.Family == document.FamilyIPv6 {
		family = ipfamily.IPv6
	}
	path, err := hostdev.SettingPath(family, step.Name, hostdev.Forwarding)
	if err != nil {
		return err
	}
	path = filepath.Join(hostdev.SettingsRoot, path)
	err = k.space.Do(func(ns.NetNS) error { return writeNumber(path, int(convert.Bit(step.On))) })
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s has no %s: its MTU is below 1280 bytes, or this kernel has none: %w", step.Name, family, err)
	}
	return err
}

// setFamily enables or disables IPv6 by a file, because netlink lacks such a request.
func (k *Kernel) setFamily(ctx context.Context, step plan.SetFamily) error {
	if _, err := k.link(ctx, step.Name); err != nil {
		return err
	}
	path, err := hostdev.SettingPath(ipfamily.IPv6, step.Name, "disable_ipv6")
	if err != nil {
		return err
	}
	path = filepath.Join(hostdev.SettingsRoot, path)
	err = k.space.Do(func(ns.NetNS) error { return writeNumber(path, int(convert.Bit(!step.Enabled))) })
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if !step.Enabled {
		return nil // The caller wants a device without IPv6.
	}
	return fmt.Errorf(
		"ipv6.enabled: %s has no IPv6: its MTU is below 1280 bytes, or this kernel has none: %w",
		step.Name,
		err,
	)
}
