// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package macvlan_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// onTop gives the node a device up0 that sends by eth0, with an address.
func onTop() error {
	return errors.Join(
		netnstest.OnLink("eth0", func(l netlink.Link) error {
			return netlink.LinkAdd(
				&netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Name: "up0", TxQLen: -1, ParentIndex: l.Attrs().Index}, Mode: netlink.MACVLAN_MODE_BRIDGE},
			)
		})(),
		childtest.AddAddrs("up0", "192.0.2.9/24"))
}

// below gives the node a bridge br0 with an address. eth0 is a port of the bridge.
func below() error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0", TxQLen: -1}}
	return errors.Join(
		netlink.LinkAdd(bridge),
		netnstest.OnLink("eth0", func(l netlink.Link) error { return netlink.LinkSetMaster(l, bridge) })(),
		childtest.AddAddrs("br0", "192.0.2.9/24"))
}

// apart gives the node a device apart0 with an address, and a bridge without ports.
func apart() error {
	return errors.Join(
		netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0", TxQLen: -1}}),
		netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "apart0", TxQLen: -1}, PeerName: "apart1"}),
		childtest.AddAddrs("apart0", "192.0.2.9/24"))
}

func TestMacvlan_DeviceWithNodeAddress_GuardRequired(t *testing.T) {
	address := func() error { return childtest.AddAddrs("eth0", "192.0.2.9/24") }
	known := []netip.Addr{netip.MustParseAddr("192.0.2.9")}
	for _, tc := range []struct {
		name   string
		onNode func() error
		addrs  []netip.Addr
		guard  string
		mode   string
		says   string
	}{
		{name: "no address", onNode: func() error { return nil }, addrs: known},
		{name: "an address that no other node knows", onNode: address, addrs: []netip.Addr{netip.MustParseAddr("192.0.2.8")}},
		{name: "a guard", onNode: address, addrs: known, guard: "eth0"},
		{name: "no guard yet", onNode: address, addrs: known, says: "is not loaded yet"},
		{name: "a guard on another device", onNode: address, addrs: known, guard: "lo", says: "reaches the node's address 192.0.2.9 (on eth0), and no program"},
		{name: "no guard, and all is permitted", onNode: address},
		{name: "a guard, and the device for the pod alone", onNode: address, addrs: known, guard: "eth0", mode: annotations.ModePassthru, says: "in mode passthru"},
		{name: "a guard on the device above", onNode: onTop, addrs: known, guard: "up0", says: "reaches the node's address 192.0.2.9 (on up0)"},
		{name: "an address on a device apart", onNode: apart, addrs: known, guard: "apart0"},
		{name: "an address on the bridge that the device is a port of", onNode: below, addrs: known, guard: "br0", says: "reaches the node's address 192.0.2.9 (on br0)"},
		{name: "a guard, and an address above", onNode: onTop, addrs: known, guard: "eth0", says: "multiNetwork.underlayAttachments"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, _ := childtest.NewNode(t, macvlan.Devices)
			n.Do(t, tc.onNode)
			*n.Underlay = ifdriver.Underlay{Addrs: tc.addrs}
			if tc.guard != "" {
				n.Underlay.Guarded = n.Link(t, tc.guard).Attrs().Index
			}
			pod := netnstest.New(t)
			s := childtest.Spec(pod)
			s.Mode = tc.mode
			_, err := n.Driver.Attach(t.Context(), s)
			switch {
			case tc.says == "" && err != nil:
				t.Error(err)
			case tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("got %v, want an error with %q", err, tc.says)
			}
			if notes := n.Notes(t); tc.says != "" && len(notes) != 0 {
				t.Errorf("%v are left", notes)
			}
		})
	}
}
