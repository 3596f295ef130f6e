// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// changePort applies settings of a port of a bridge.
func (k *Kernel) changePort(ctx context.Context, step plan.PortChange) error {
	bridge, err := k.link(ctx, step.Bridge)
	if err != nil {
		return err
	}
	port, err := k.link(ctx, step.Port.Name)
	if err != nil {
		return err
	}
	if port.Controller != bridge.Index || bridge.Driver != "bridge" {
		return fmt.Errorf("%s is no port of the bridge %s: attach it first", step.Port.Name, step.Bridge)
	}
	var s convert.Settings
	s.Truth(nl.IFLA_BRPORT_MODE, step.Port.Hairpin)
	s.Integer(nl.IFLA_BRPORT_COST, 4, step.Port.PathCost)
	s.Integer(nl.IFLA_BRPORT_PRIORITY, 2, step.Port.Priority)
	if len(s) > 0 {
		info := convert.Nested(
			unix.IFLA_LINKINFO,
			[]*nl.RtAttr{convert.ZeroEnded(nl.IFLA_INFO_SLAVE_KIND, "bridge"), convert.Nested(nl.IFLA_INFO_SLAVE_DATA, s)},
		)
		if err := k.modify(ctx, port, info); err != nil {
			return err
		}
	}
	if step.Port.VLAN == nil {
		return nil
	}
	return k.changeVLANs(ctx, bridge, port, *step.Port.VLAN)
}

// filter turns on the filter of VLANs of a bridge.
func (k *Kernel) filter(ctx context.Context, bridge convert.Link) error {
	if convert.Filters(bridge) {
		return nil
	}
	err := k.setFilter(ctx, bridge, 1)
	if errors.Is(err, unix.EOPNOTSUPP) || bridge.Data.Get(nl.IFLA_BR_VLAN_FILTERING) == nil {
		return fmt.Errorf(
			"bridge.port.vlan: this kernel has no bridges that filter VLANs (CONFIG_BRIDGE_VLAN_FILTERING): %w",
			errors.ErrUnsupported,
		)
	}
	return err
}

// unfilter turns off the filter of VLANs of a bridge.
func (k *Kernel) unfilter(ctx context.Context, name string) error {
	bridge, err := k.link(ctx, name)
	if err != nil || !convert.Filters(bridge) {
		return err
	}
	return k.setFilter(ctx, bridge, 0)
}

func (k *Kernel) setFilter(ctx context.Context, bridge convert.Link, on uint32) error {
	data := []*nl.RtAttr{convert.Sized(nl.IFLA_BR_VLAN_FILTERING, 1, on)}
	return k.modify(
		ctx,
		bridge,
		convert.Nested(
			unix.IFLA_LINKINFO,
			[]*nl.RtAttr{convert.ZeroEnded(nl.IFLA_INFO_KIND, "bridge"), convert.Nested(nl.IFLA_INFO_DATA, data)},
		),
	)
}
