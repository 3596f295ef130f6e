// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sriov

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/podside"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// standIn makes a dummy for a VF without a network device, with all that the interface would
// have. Its alias is the PCI address. In a network with a VLAN it is a VLAN device on top of
// a dummy, as in DANM 4.2.
func standIn(h *rtnl.Socket, n note, spec ifdriver.Spec) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr, attrs.MTU = n.temporary(), spec.MAC, spec.MTU
	if err := h.LinkAdd(&netlink.Dummy{LinkAttrs: attrs}); err != nil {
		return lacks(err, "dummy")
	}
	base, err := h.IndexOf(n.temporary())
	if err != nil {
		return err
	}
	ifindex := base
	if spec.VLAN != 0 {
		if ifindex, err = onTop(h, n, base, spec); err != nil {
			return err
		}
	}
	var b rtnl.Batch
	b.SetLink("set alias and name", ifindex, 0, 0,
		nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(n.PCI)), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(spec.IfName)))
	if base != ifindex {
		b.SetUp("set "+n.temporary()+" up", base)
	}
	if err := named(h.Execute(&b), spec); err != nil {
		return err
	}
	if err := podside.Configure(h, spec); err != nil {
		return fmt.Errorf("configure the interface: %w", err)
	}
	return nil
}

// onTop makes a VLAN device on a dummy, and returns its index. The dummy keeps its temporary
// name.
func onTop(h *rtnl.Socket, n note, base int, spec ifdriver.Spec) (int, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.HardwareAddr = ifdriver.DeviceName("alt", n.ContainerID, n.IfName), base, spec.MAC
	tag := netlink.VLAN_PROTOCOL_8021Q
	if protocols[spec.Settings().Proto] == unix.ETH_P_8021AD {
		tag = netlink.VLAN_PROTOCOL_8021AD
	}
	if err := h.LinkAdd(&netlink.Vlan{LinkAttrs: attrs, VlanId: int(spec.VLAN), VlanProtocol: tag}); err != nil {
		return 0, lacks(err, "vlan (module 8021q)")
	}
	return h.IndexOf(attrs.Name)
}

// lacks explains a kernel without a sort of devices.
func lacks(err error, kind string) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%w: %s: %w", ifdriver.ErrUnsupported, kind, err)
	}
	return fmt.Errorf("create a %s: %w", kind, err)
}
