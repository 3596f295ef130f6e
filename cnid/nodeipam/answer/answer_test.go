// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package answer_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/nodeipam/answer"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
)

var node = answer.Node{
	Host: wire.HostIPInfo{Gateway: "198.51.100.1", PrimaryIP: "198.51.100.9", Subnet: "198.51.100.0/24"},
	Infra: []netip.Prefix{
		netip.MustParsePrefix("198.51.100.9/24"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("2001:db8:96::/112"),
	},
}

func address(prefix, gateway string) answer.Address {
	a := answer.Address{Prefix: netip.MustParsePrefix(prefix)}
	if gateway != "" {
		a.Gateway = netip.MustParseAddr(gateway)
	}
	return a
}

func infra(name string, addresses ...answer.Address) answer.Interface {
	return answer.Interface{Name: name, NIC: wire.InfraNIC, Addresses: addresses, DNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")}}
}

func device(name string, addresses ...answer.Address) answer.Interface {
	return answer.Interface{Name: name, NIC: wire.FrontendNIC, MAC: "02:00:00:00:00:01", ID: "nc-" + name, Addresses: addresses}
}

// text returns, of each entry, the part that a client configures.
func text(entries []wire.PodIPInfo) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%s %s %s/%d via %q skip=%t\n", e.InterfaceName, e.NICType, e.PodIPConfig.IPAddress, e.PodIPConfig.PrefixLength,
			e.NetworkContainerPrimaryIPConfig.GatewayIPAddress, e.SkipDefaultRoutes)
		if c := e.NetworkContainerIPv6Config; c != nil {
			fmt.Fprintf(&b, "  and %s/%d via %q\n", c.IPSubnet.IPAddress, c.IPSubnet.PrefixLength, c.GatewayIPv6Address)
		}
		for _, r := range e.Routes {
			fmt.Fprintf(&b, "  %s via %q\n", r.IPAddress, r.GatewayIPAddress)
		}
	}
	return b.String()
}

func TestAnswer_EachEntry_RoutesMatch(t *testing.T) {
	four, six := address("192.0.2.7/24", "192.0.2.1"), address("2001:db8::7/64", "2001:db8::1")
	for _, tc := range []struct {
		name       string
		requested  string
		interfaces []answer.Interface
		want       string
	}{
		{
			"a pod of the infrastructure", "eth0",
			[]answer.Interface{infra("eth0", four)},
			"eth0 InfraNIC 192.0.2.7/24 via \"192.0.2.1\" skip=false\n",
		},
		{
			"of two families", "eth0",
			[]answer.Interface{infra("eth0", four, six)},
			"eth0 InfraNIC 192.0.2.7/24 via \"192.0.2.1\" skip=false\neth0 InfraNIC 2001:db8::7/64 via \"2001:db8::1\" skip=false\n",
		},
		{
			"with a delegated device", "eth0",
			[]answer.Interface{infra("eth0", four, six), device("eth1", address("203.0.113.7/24", "203.0.113.1"))},
			`eth0 InfraNIC 192.0.2.7/24 via "192.0.2.1" skip=true
  198.51.100.0/24 via "169.254.1.1"
  10.96.0.0/12 via "169.254.1.1"
eth0 InfraNIC 2001:db8::7/64 via "2001:db8::1" skip=true
  2001:db8:96::/112 via "fe80::1234:5678:9abc"
eth1 FrontendNIC 203.0.113.7/32 via "203.0.113.1" skip=false
  169.254.2.1/32 via ""
  0.0.0.0/0 via "169.254.2.1"
`,
		},
		{
			"with two devices, the infrastructure last", "eth0",
			[]answer.Interface{device("eth1", address("203.0.113.7/32", "")), device("eth2", address("203.0.113.70/25", ""), address("2001:db8:2::7/64", "")), infra("eth0", four)},
			`eth1 FrontendNIC 203.0.113.7/32 via "" skip=false
  169.254.2.1/32 via ""
  0.0.0.0/0 via "169.254.2.1"
eth2 FrontendNIC 203.0.113.70/32 via "" skip=false
  and 2001:db8:2::7/128 via "fe80::1234:5678:9abc"
  169.254.2.1/32 via ""
  203.0.113.0/25 via "169.254.2.1"
  fe80::1234:5678:9abc/128 via ""
  2001:db8:2::/64 via "fe80::1234:5678:9abc"
eth0 InfraNIC 192.0.2.7/24 via "192.0.2.1" skip=true
  198.51.100.0/24 via "169.254.1.1"
  10.96.0.0/12 via "169.254.1.1"
`,
		},
		{
			"with a device of two families, IPv6 first", "eth0",
			[]answer.Interface{infra("eth0", four), device("eth1", six, address("203.0.113.7/24", "203.0.113.1"))},
			`eth0 InfraNIC 192.0.2.7/24 via "192.0.2.1" skip=true
  198.51.100.0/24 via "169.254.1.1"
  10.96.0.0/12 via "169.254.1.1"
eth1 FrontendNIC 203.0.113.7/32 via "203.0.113.1" skip=false
  and 2001:db8::7/128 via "2001:db8::1"
  169.254.2.1/32 via ""
  0.0.0.0/0 via "169.254.2.1"
  fe80::1234:5678:9abc/128 via ""
  ::/0 via "fe80::1234:5678:9abc"
`,
		},
		{
			"a second interface of the client", "net1",
			[]answer.Interface{infra("eth0", four), infra("net1", address("203.0.113.7/24", "203.0.113.1"))},
			"eth0 InfraNIC 192.0.2.7/24 via \"192.0.2.1\" skip=true\nnet1 InfraNIC 203.0.113.7/24 via \"203.0.113.1\" skip=false\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			entries, err := answer.Entries(tc.requested, tc.interfaces, node)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, text(entries)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnswer_NodeNetwork_ReachableUnlessOwn: a tenant's network may have the range of the
// nodes. Its pod then reaches its own network there.
func TestAnswer_NodeNetwork_ReachableUnlessOwn(t *testing.T) {
	near := answer.Node{Nearby: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}}
	for device4, want := range map[string]int{"203.0.113.7/24": 1, "198.51.100.130/25": 0} {
		entries, err := answer.Entries("eth0", []answer.Interface{infra("eth0", address("192.0.2.7/24", "192.0.2.1")), device("eth1", address(device4, ""))}, near)
		if err != nil || len(entries[0].Routes) != want {
			t.Errorf("a pod with %s: %v, %+v, want %d routes by eth0", device4, err, entries[0].Routes, want)
		}
	}
}

func TestAnswer_Entry_AllClientFieldsPresent(t *testing.T) {
	entries, err := answer.Entries(
		"eth0",
		[]answer.Interface{device("eth1", address("203.0.113.7/24", "203.0.113.1")), infra("eth0", address("2001:db8::7/64", "fe80::1"))},
		node,
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []wire.PodIPInfo{
		{
			PodIPConfig: wire.IPSubnet{IPAddress: "203.0.113.7", PrefixLength: 32},
			NetworkContainerPrimaryIPConfig: wire.IPConfiguration{
				IPSubnet: wire.IPSubnet{IPAddress: "203.0.113.0", PrefixLength: 24}, DNSServers: []string{}, GatewayIPAddress: "203.0.113.1",
			},
			HostPrimaryIPInfo: node.Host, NICType: wire.FrontendNIC, InterfaceName: "eth1", MacAddress: "02:00:00:00:00:01", NetworkContainerID: "nc-eth1",
			Routes: []wire.Route{{IPAddress: "169.254.2.1/32"}, {IPAddress: "0.0.0.0/0", GatewayIPAddress: "169.254.2.1"}},
		},
		{
			PodIPConfig: wire.IPSubnet{IPAddress: "2001:db8::7", PrefixLength: 64},
			NetworkContainerPrimaryIPConfig: wire.IPConfiguration{
				IPSubnet: wire.IPSubnet{IPAddress: "2001:db8::", PrefixLength: 64}, DNSServers: []string{"10.96.0.10"},
				GatewayIPAddress: "fe80::1", GatewayIPv6Address: "fe80::1",
			},
			HostPrimaryIPInfo: node.Host, NICType: wire.InfraNIC, InterfaceName: "eth0", SkipDefaultRoutes: true,
			Routes: []wire.Route{{IPAddress: "2001:db8:96::/112", GatewayIPAddress: "fe80::1234:5678:9abc"}},
		},
	}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnswer_Unconfigurable_Error(t *testing.T) {
	four := address("192.0.2.7/24", "")
	for name, list := range map[string][]answer.Interface{
		"nothing":                   nil,
		"no address":                {infra("eth0")},
		"an empty address":          {infra("eth0", answer.Address{})},
		"two of one family":         {infra("eth0", four, address("192.0.2.8/24", ""))},
		"a device without MAC":      {{Name: "eth1", NIC: wire.FrontendNIC, Addresses: []answer.Address{four}}},
		"a second without address":  {infra("eth0", four), device("eth1")},
		"an empty one after a good": {infra("eth0", four, answer.Address{})},
	} {
		if entries, err := answer.Entries("eth0", list, node); err == nil || entries != nil {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

// defaults returns the interfaces that would get a default route from a client, by family.
func defaults(entries []wire.PodIPInfo) map[bool][]string {
	got := map[bool][]string{}
	for _, e := range entries {
		is6 := netip.MustParseAddr(e.PodIPConfig.IPAddress).Is6()
		if e.NICType != wire.FrontendNIC && !e.SkipDefaultRoutes {
			got[is6] = append(got[is6], e.InterfaceName)
		}
		for _, r := range e.Routes {
			if route := netip.MustParsePrefix(r.IPAddress); route.Bits() == 0 {
				got[route.Addr().Is6()] = append(got[route.Addr().Is6()], e.InterfaceName)
			}
		}
	}
	return got
}

func TestAnswer_SeveralInterfaces_OneHasDefaultRoutes(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 17))
	for range 2000 {
		var list []answer.Interface
		for i := range 1 + random.IntN(5) {
			four, six := address(fmt.Sprintf("192.0.2.%d/24", i+2), "192.0.2.1"), address(fmt.Sprintf("2001:db8::%d/64", i+2), "2001:db8::1")
			addresses := [][]answer.Address{{four}, {six}, {four, six}}[random.IntN(3)]
			kind := []func(string, ...answer.Address) answer.Interface{infra, device}[random.IntN(2)]
			list = append(list, kind(fmt.Sprintf("eth%d", i), addresses...))
		}
		entries, err := answer.Entries("eth0", list, node)
		if err != nil {
			t.Fatal(err)
		}
		got := defaults(entries)
		var all []string
		for _, names := range got {
			if len(names) > 1 {
				t.Fatalf("two default routes of one family by %v:\n%s", names, text(entries))
			}
			all = append(all, names...)
		}
		if len(all) == 0 || all[0] != all[len(all)-1] {
			t.Fatalf("default routes by %v:\n%s", all, text(entries))
		}
	}
}
