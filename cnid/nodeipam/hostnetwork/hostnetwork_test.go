// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnetwork

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/internal/testnet"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

// route adds a default route in the namespace of the calling thread.
func route(link, gateway string, metric int) error {
	device, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: device.Attrs().Index, Gw: net.ParseIP(gateway), Priority: metric})
}

func TestHostNetwork_NodeAddress_ItsNetworkFound(t *testing.T) {
	space, peer := testnet.New(t), testnet.New(t)
	testnet.Veth(t, space, "eth0", []string{"192.0.2.9/24", "192.0.2.10/25", "2001:db8::9/64"}, peer, "eth0", nil)
	testnet.Veth(t, space, "eth1", []string{"198.51.100.9/24"}, peer, "eth1", nil)
	var address netip.Addr
	r := New(func() netip.Addr { return address }, slog.New(slog.DiscardHandler))
	check := func(when, of string, want wire.HostIPInfo) {
		t.Helper()
		if of != "" {
			address = netip.MustParseAddr(of)
		}
		var got wire.HostIPInfo
		testnet.In(t, space, func() error { got = r.Info(); return nil })
		if got != want {
			t.Errorf("%s: got %+v, want %+v", when, got, want)
		}
	}
	check("before its Node object is known", "", wire.HostIPInfo{})
	check("without a default route", "192.0.2.9", wire.HostIPInfo{PrimaryIP: "192.0.2.9", Subnet: "192.0.2.0/24"})

	testnet.In(t, space, func() error { return route("eth0", "192.0.2.1", 100) })
	testnet.In(t, space, func() error { return route("eth0", "192.0.2.2", 50) })
	testnet.In(t, space, func() error { return route("eth1", "198.51.100.1", 10) })
	testnet.In(t, space, func() error { return route("eth0", "2001:db8::1", 50) })
	check("before a change is reported", "192.0.2.9", wire.HostIPInfo{PrimaryIP: "192.0.2.9", Subnet: "192.0.2.0/24"})
	r.Changed()
	check("with several default routes", "192.0.2.9", wire.HostIPInfo{PrimaryIP: "192.0.2.9", Subnet: "192.0.2.0/24", Gateway: "192.0.2.2"})
	check("with another address in a smaller subnet", "192.0.2.10", wire.HostIPInfo{PrimaryIP: "192.0.2.10", Subnet: "192.0.2.0/25", Gateway: "192.0.2.2"})
	check("on another device", "198.51.100.9", wire.HostIPInfo{PrimaryIP: "198.51.100.9", Subnet: "198.51.100.0/24", Gateway: "198.51.100.1"})
	check("of IPv6", "2001:db8::9", wire.HostIPInfo{PrimaryIP: "2001:db8::9", Subnet: "2001:db8::/64", Gateway: "2001:db8::1"})
	check("with an address that the node lacks", "203.0.113.1", wire.HostIPInfo{PrimaryIP: "203.0.113.1"})
}
