// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus/convert"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// ReadNode reads the kernel's state into a dump, with the maps that are pinned in a
// directory. Errors of one part do not affect the others.
func ReadNode(pinDir string, d *nodestatus.Dump) {
	note := func(err error) {
		if err != nil {
			d.Unreadable = append(d.Unreadable, err.Error())
		}
	}
	var err error
	d.Links, err = ownLinks()
	note(err)
	maps, looked, err := pinnedState(pinDir)
	note(err)
	d.Rows, d.Cached = maps.Rows(), convert.CachedRows(looked)
	d.Uplinks, err = uplinks(maps.Own)
	note(err)
	programs, err := datapath.ReadHooks(pinDir)
	note(err)
	d.Hooks = convert.Programs(programs)
	_, err = netfilter.Counters()
	note(err)
}

// pinnedState returns the daemon's planned state and the rows that it has looked up. It opens the
// pins again: a map whose pin was deleted is valid for this process only.
func pinnedState(pinDir string) (planned state.State, looked []state.Cached, err error) {
	reader, err := datapath.OpenReader(pinDir)
	if err != nil {
		return planned, nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	planned, err = reader.Snapshot()
	if err != nil {
		return planned, nil, err
	}
	looked, err = reader.Cached().Rows()
	return planned, looked, err
}

// ownLinks lists the devices of the node with a name of Alioth's.
func ownLinks() ([]nodestatus.Link, error) {
	all, err := rtnl.Complete(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	var own []nodestatus.Link
	for _, link := range all {
		attrs := link.Attrs()
		if !hostdev.Managed(attrs.Name) {
			continue
		}
		settings, err := netdev.Deviations(attrs.Name)
		if err != nil {
			return nil, fmt.Errorf("read settings of device %s: %w", attrs.Name, err)
		}
		own = append(
			own,
			nodestatus.Link{Name: attrs.Name, Index: attrs.Index, Up: attrs.Flags&net.FlagUp != 0, Settings: settings},
		)
	}
	slices.SortFunc(own, func(a, b nodestatus.Link) int { return strings.Compare(a.Name, b.Name) })
	return own, nil
}

// uplinks lists the devices of the node with one of its addresses.
func uplinks(own []netip.Addr) ([]nodestatus.Link, error) {
	addrs, err := rtnl.Complete(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var found []nodestatus.Link
	for _, addr := range addrs {
		ip, _ := netip.AddrFromSlice(addr.IP)
		isKnown := func(l nodestatus.Link) bool { return l.Index == addr.LinkIndex }
		if !slices.Contains(own, ip.Unmap()) || slices.ContainsFunc(found, isKnown) {
			continue
		}
		link, err := netlink.LinkByIndex(addr.LinkIndex)
		if err != nil {
			return nil, fmt.Errorf("find the device of %v: %w", ip, err)
		}
		attrs := link.Attrs()
		settings, err := netdev.UplinkDeviations(attrs.Name)
		if err != nil {
			return nil, fmt.Errorf("read settings of device %s: %w", attrs.Name, err)
		}
		found = append(
			found,
			nodestatus.Link{Name: attrs.Name, Index: attrs.Index, Up: attrs.Flags&net.FlagUp != 0, Settings: settings},
		)
	}
	slices.SortFunc(found, func(a, b nodestatus.Link) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}
