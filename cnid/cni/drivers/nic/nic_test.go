// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/nic"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

var (
	mac        = net.HardwareAddr{0, 0x0d, 0x3a, 0, 0, 1}
	everywhere = &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}
	other      = net.HardwareAddr{0, 0x0d, 0x3a, 0, 0, 2}
)

// node has the devices nic0 with mac and nic1 with other, whose far ends stand for cables.
func node(t *testing.T) *netnstest.Namespace {
	t.Helper()
	space := netnstest.New(t)
	space.Do(t, func() error {
		return errors.Join(plug("nic0", mac), plug("nic1", other))
	})
	return space
}

func plug(name string, mac net.HardwareAddr) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = name, mac
	return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far-" + name})
}

// on runs a command for a device.
func on(name string, do func(netlink.Link) error) func() error {
	return func() error {
		found, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return do(found)
	}
}

func addr(text string) func(netlink.Link) error {
	return func(l netlink.Link) error {
		parsed, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		return netlink.AddrAdd(l, parsed)
	}
}

func TestNIC_NeededByNode_NotDelegated(t *testing.T) {
	enslave := func(l netlink.Link) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "br0"
		bridge := &netlink.Bridge{LinkAttrs: attrs}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		return netlink.LinkSetMaster(l, bridge)
	}
	for name, c := range map[string]struct {
		do   func(netlink.Link) error
		uses string
	}{
		"nothing":              {func(netlink.Link) error { return nil }, ""},
		"up":                   {netlink.LinkSetUp, ""},
		"an address":           {addr("192.0.2.7/24"), "nic0 has the node's address 192.0.2.7"},
		"an IPv6 address":      {addr("2001:db8::7/64"), "nic0 has the node's address 2001:db8::7"},
		"a link-local address": {addr("fe80::7/64"), ""},
		"a controller":         {enslave, "nic0 has the controller br0"},
		"a device on it": {func(l netlink.Link) error {
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.ParentIndex = "mac0", l.Attrs().Index
			return netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE})
		}, "nic0 is what mac0 is made of"},
		"a default route": {func(l netlink.Link) error {
			return errors.Join(netlink.LinkSetUp(l), netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: everywhere}))
		}, "nic0 has a default route"},
		"a default route in another table": {func(l netlink.Link) error {
			return errors.Join(netlink.LinkSetUp(l), netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: everywhere, Table: 77}))
		}, "nic0 has a default route"},
	} {
		t.Run(name, func(t *testing.T) {
			space := node(t)
			space.Do(t, on("nic0", c.do))
			space.Do(t, func() error {
				now, err := nic.Read()
				if err != nil {
					return err
				}
				found, err := now.Find(mac)
				if c.uses == "" && (err != nil || found.Attrs().Name != "nic0") {
					t.Errorf("%v, %v, want nic0", found, err)
				}
				if c.uses != "" && (!errors.Is(err, nic.ErrInUse) || !strings.Contains(err.Error(), c.uses)) {
					t.Errorf("%v, want %q", err, c.uses)
				}
				list, err := now.Offered([]string{"nic?"})
				if want := 2; err != nil || c.uses == "" && len(list) != want || c.uses != "" && (len(list) != 1 || list[0].Name != "nic1") {
					t.Errorf("offered are %v, %v", list, err)
				}
				return nil
			})
		})
	}
}

func TestNIC_MACAddress_DeviceFound(t *testing.T) {
	node(t).Do(t, func() error {
		if err := plug("twin", other); err != nil {
			return err
		}
		now, err := nic.Read()
		if err != nil {
			return err
		}
		if _, err := now.Find(net.HardwareAddr{2, 0, 0, 0, 0, 9}); !errors.Is(err, nic.ErrMissing) {
			t.Errorf("an address that no device has: %v", err)
		}
		if _, err := now.Find(other); !errors.Is(err, nic.ErrInUse) || !strings.Contains(err.Error(), "both have the address") {
			t.Errorf("an address of two devices: %v", err)
		}
		return nil
	})
}

// TestNIC_FunctionUnderMaster_MasterFound: they share an address.
func TestNIC_FunctionUnderMaster_MasterFound(t *testing.T) {
	node := nic.Node{Links: []netlink.Link{
		&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 2, Name: "eth1", HardwareAddr: mac}},
		&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 3, Name: "enP1s1", HardwareAddr: mac, MasterIndex: 2}},
	}}
	if found, err := node.Find(mac); err != nil || found.Attrs().Name != "eth1" {
		t.Errorf("%v, %v, want eth1", found, err)
	}
}

func TestNICPattern_Malformed_Error(t *testing.T) {
	node := nic.Node{Links: []netlink.Link{&netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 2, Name: "eth1", HardwareAddr: mac}}}}
	if list, err := node.Offered([]string{"["}); err == nil {
		t.Errorf("offered are %v", list)
	}
}
