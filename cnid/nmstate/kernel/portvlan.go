// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel/convert"
)

// vlans returns the VLANs of all ports of bridges, by their indexes.
func (k *Kernel) vlans(ctx context.Context) (map[uint32]convert.VIDs, error) {
	messages, err := k.dump(
		ctx,
		unix.RTM_GETLINK,
		nl.NewIfInfomsg(unix.AF_BRIDGE),
		convert.Sized(unix.IFLA_EXT_MASK, 4, compressedVLANs),
	)
	if err != nil {
		return nil, fmt.Errorf("list VLANs of ports: %w", err)
	}
	all := map[uint32]convert.VIDs{}
	for _, message := range messages {
		if l, ok := convert.ReadLink(message); ok {
			all[l.Index] = convert.ReadVIDs(l.Get(unix.IFLA_AF_SPEC))
		}
	}
	return all, nil
}

// changeVLANs gives a port the VLANs that it shall have, and takes others.
func (k *Kernel) changeVLANs(ctx context.Context, bridge, port convert.Link, shall document.PortVLAN) error {
	want, err := convert.WantedVIDs(shall, uint16(bridge.Data.Value(nl.IFLA_BR_VLAN_DEFAULT_PVID)))
	if err != nil {
		return fmt.Errorf("bridge.port[%s].vlan.%w", port.Name, err)
	}
	if shall.Mode != "" {
		if err := k.filter(ctx, bridge); err != nil {
			return err
		}
	}
	all, err := k.vlans(ctx)
	if err != nil {
		return err
	}
	if err := k.setVLANs(port, all[port.Index], want); err != nil {
		return fmt.Errorf("VLANs of %s: %w", port.Name, err)
	}
	return nil
}

// setVLANs removes VLANs before it adds some.
func (k *Kernel) setVLANs(port convert.Link, have, want convert.VIDs) error {
	device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: int(port.Index)}}
	changes := convert.ChangesOf(have, want)
	for _, r := range changes.Removed {
		if err := k.handle.BridgeVlanDelRange(device, r.First, r.End(), false, false, false, false); err != nil {
			return fmt.Errorf("remove %d to %d: %w", r.First, r.Last, err)
		}
	}
	for _, r := range changes.Added {
		if err := k.handle.BridgeVlanAddRange(device, r.First, r.End(), false, false, false, false); err != nil {
			return fmt.Errorf("add %d to %d: %w", r.First, r.Last, err)
		}
	}
	for _, vid := range changes.Untagged {
		if err := k.handle.BridgeVlanAdd(device, vid, true, true, false, false); err != nil {
			return fmt.Errorf("add %d for untagged frames: %w", vid, err)
		}
	}
	return nil
}
