// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenic

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// entries returns the answer of the service to a pod with two devices.
func entries(t *testing.T) []wire.PodIPInfo {
	t.Helper()
	list, err := answer.Entries("eth0", []answer.Interface{
		{Name: "eth0", NIC: wire.InfraNIC, Addresses: []answer.Address{{Prefix: prefix("192.0.2.2/24"), Gateway: netip.MustParseAddr("192.0.2.1")}}},
		{
			Name:      "eth1",
			NIC:       wire.FrontendNIC,
			MAC:       macOf(1).String(),
			Addresses: []answer.Address{{Prefix: prefix("203.0.113.5/24")}, {Prefix: prefix("2001:db8:1::5/64")}},
		},
		{Name: "eth2", NIC: wire.FrontendNIC, MAC: macOf(2).String(), Addresses: []answer.Address{{Prefix: prefix("198.51.100.7/24")}}},
	}, answer.Node{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestDevicePlan_EachAnswer_DevicesFound(t *testing.T) {
	got, err := Wanted(entries(t), "eth0")
	if diff := cmp.Diff([]Interface{first(macOf(1)), second(macOf(2))}, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestDevicePlan_AmbiguousAnswer_Refused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(device *wire.PodIPInfo)
		text   string
	}{
		"no name":                   {func(d *wire.PodIPInfo) { d.InterfaceName = "" }, "needs a name"},
		"a strange name":            {func(d *wire.PodIPInfo) { d.InterfaceName = "a/b" }, "ifname"},
		"the requested interface":   {func(d *wire.PodIPInfo) { d.InterfaceName = "eth0" }, "eth0 is a device of the node"},
		"no Ethernet address":       {func(d *wire.PodIPInfo) { d.MacAddress = "" }, "no Ethernet address"},
		"a longer Ethernet address": {func(d *wire.PodIPInfo) { d.MacAddress = "00:00:00:00:fe:80:00:00" }, "no Ethernet address"},
		"no address":                {func(d *wire.PodIPInfo) { d.PodIPConfig.IPAddress = "" }, "ParseAddr"},
		"a subnet":                  {func(d *wire.PodIPInfo) { d.PodIPConfig.PrefixLength = 24 }, "want 32"},
		"no routes":                 {func(d *wire.PodIPInfo) { d.Routes = nil }, "has no routes"},
		"a strange route":           {func(d *wire.PodIPInfo) { d.Routes[0].IPAddress = "everywhere" }, "everywhere"},
		"a strange gateway":         {func(d *wire.PodIPInfo) { d.Routes[0].GatewayIPAddress = "there" }, "there"},
		"a gateway of IPv6":         {func(d *wire.PodIPInfo) { d.Routes[0].GatewayIPAddress = "fe80::1" }, "another family"},
		"one device, two names":     {func(d *wire.PodIPInfo) { d.MacAddress = macOf(2).String() }, "and device"},
		"one name, two devices":     {func(d *wire.PodIPInfo) { d.InterfaceName = "eth2" }, "and device"},
	} {
		list := entries(t)
		c.change(&list[1])
		if got, err := Wanted(list, "eth0"); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, %v, want %q", name, got, err, c.text)
		}
	}
}

func TestDevicePlan_DeviceInAnyNamespace_Recognized(t *testing.T) {
	hardware := func(name, bus, parent string, mac, permanent net.HardwareAddr) netlink.Link {
		return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: mac, PermHWAddr: permanent, ParentDevBus: bus, ParentDev: parent}}
	}
	pair := func(name string) netlink.Link {
		return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: macOf(1)}}
	}
	delegate := hardware("eth5", "vmbus", "a", macOf(1), macOf(1))
	for name, c := range map[string]struct {
		was  netlink.Link
		now  []netlink.Link
		want int
	}{
		"as it was":                          {delegate, []netlink.Link{pair("x"), delegate}, 1},
		"under a name of the kernel":         {delegate, []netlink.Link{hardware("dev7", "vmbus", "a", macOf(1), macOf(1))}, 0},
		"with an address of the pod":         {delegate, []netlink.Link{hardware("eth1", "vmbus", "a", macOf(9), macOf(1))}, 0},
		"its virtual function":               {delegate, []netlink.Link{hardware("eth6", "pci", "b", macOf(1), macOf(1))}, -1},
		"another with its address":           {delegate, []netlink.Link{hardware("eth6", "vmbus", "a", macOf(1), macOf(2))}, -1},
		"a device of a pod with its address": {delegate, []netlink.Link{pair("eth1")}, -1},
		"one of two of the description":      {pair("nic0"), []netlink.Link{pair("x"), pair("eth1")}, 1},
		"two, none with the name":            {pair("nic0"), []netlink.Link{pair("x"), pair("y")}, 0},
		"nowhere":                            {pair("nic0"), nil, -1},
	} {
		d := deviceOf(c.was, first(macOf(1)))
		got := note{}.find(c.now, d)
		var want netlink.Link
		if c.want >= 0 {
			want = c.now[c.want]
		}
		if got != want {
			t.Errorf("%s: found %v, want %v", name, got, want)
		}
	}
}
