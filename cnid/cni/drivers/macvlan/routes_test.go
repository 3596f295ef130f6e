// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package macvlan_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alioth-net/alioth/api/netif"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/child/childtest"
	"github.com/alioth-net/alioth/cnid/cni/drivers/macvlan"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// TestMacvlan_SeveralAddresses_EachLeavesByOwnGateway is about two networks with one subnet, as two
// VLANs may have it.
func TestMacvlan_SeveralAddresses_EachLeavesByOwnGateway(t *testing.T) {
	n, first := childtest.NewNode(t, macvlan.Devices)
	second := n.AddDevice(t, "eth1", "192.0.2.1/24", "2001:db8::1/64")
	for r, name := range map[childtest.Router]string{first: "first", second: "second"} {
		r.Do(t, func() error { return childtest.AddAddrs("lo", "203.0.113.9/32", "2001:db8:9::9/128") })
		childtest.Serve(t, r.Namespace, name)
	}
	pod := netnstest.New(t)
	for i, parent := range []string{"eth0", "eth1"} {
		s := childtest.Spec(pod, []string{"192.0.2.7/24", "192.0.2.8/24"}[i], []string{"2001:db8::7/64", "2001:db8::8/64"}[i])
		s.IfName, s.Parent, s.Gateways = []string{"net1", "net2"}[i], parent, nil
		for _, p := range s.Addrs {
			table := 100 + 200*i // 300 does not fit in a byte
			gateway := p.Masked().Addr().Next()
			to := map[bool]string{true: "203.0.113.0/24", false: "2001:db8:9::/48"}[p.Addr().Is4()]
			s.Routes = append(s.Routes,
				netif.Route{Dst: p.Masked(), Table: table},
				netif.Route{Dst: netip.MustParsePrefix(to), Gateway: gateway, Table: table})
			s.Rules = append(s.Rules, netif.Rule{From: netip.PrefixFrom(p.Addr(), p.Addr().BitLen()), Table: table})
		}
		childtest.MustAttach(t, n, s)
		if _, err := n.Driver.Check(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
	for _, tc := range []struct{ from, to, want string }{
		{"192.0.2.7", "203.0.113.9", "first"},
		{"192.0.2.8", "203.0.113.9", "second"},
		{"192.0.2.7", "192.0.2.1", "first"}, // on the link
		{"192.0.2.8", "192.0.2.1", "second"},
		{"2001:db8::7", "2001:db8:9::9", "first"},
		{"2001:db8::8", "2001:db8:9::9", "second"},
		{"2001:db8::8", "2001:db8::1", "second"},
	} {
		if answer, err := childtest.Ask(t, pod, tc.from, tc.to, 20*time.Second); answer != tc.want {
			t.Errorf("from %s to %s %q answers (%v), want %s", tc.from, tc.to, answer, err, tc.want)
		}
	}
}

func TestCheck_ChangedInterface_DifferenceReported(t *testing.T) {
	eth0 := func(do func(netlink.Link) error) func() error { return netnstest.OnLink("eth0", do) }
	parse := func(text string) *net.IPNet {
		_, prefix, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return prefix
	}
	route := func(to string, table int) func() error {
		return eth0(func(l netlink.Link) error {
			return netlink.RouteDel(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: parse(to), Table: table})
		})
	}
	for _, tc := range []struct {
		name   string
		change func() error
		want   string
		gone   bool
	}{
		{"nothing", func() error { return nil }, "", false},
		{"an address was added", func() error { return childtest.AddAddrs("eth0", "10.99.0.1/24") }, "", false},
		{"an address was removed", eth0(func(l netlink.Link) error {
			addr, _ := netlink.ParseAddr("2001:db8::7/64")
			return netlink.AddrDel(l, addr)
		}), "address 2001:db8::7/64 is gone", false},
		{"the MTU", eth0(func(l netlink.Link) error { return netlink.LinkSetMTU(l, 1300) }), "MTU 1300", false},
		{"the MAC", eth0(func(l netlink.Link) error { return netlink.LinkSetHardwareAddr(l, net.HardwareAddr{2, 0, 0, 0, 0, 9}) }), "MAC 02:00:00:00:00:09", false},
		{"down", eth0(netlink.LinkSetDown), "is down", false},
		{"the default route", route("0.0.0.0/0", 0), "default route by 192.0.2.1 is gone", false},
		{"a route", route("198.51.100.0/24", 0), "route to 198.51.100.0/24 by 192.0.2.254 is gone", false},
		{"a route of a table", route("203.0.113.0/24", 300), "route to 203.0.113.0/24 by 192.0.2.254 in table 300 is gone", false},
		{"a rule", func() error {
			rule := netlink.NewRule()
			rule.Src, rule.Table = parse("192.0.2.7/32"), 300
			return netlink.RuleDel(rule)
		}, "rule from 192.0.2.7/32 to table 300 is gone", false},
		{"IPv6 is off", func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", []byte("1"), 0o644) }, "address 2001:db8::7/64 is gone", false},
		{"another name", eth0(func(l netlink.Link) error {
			return errors.Join(netlink.LinkSetDown(l), netlink.LinkSetName(l, "eth9"))
		}), "has become eth9", false},
		{"another mark", eth0(func(l netlink.Link) error { return netlink.LinkSetAlias(l, "nobody's") }), "not the one that was attached", true},
		{"deleted", eth0(netlink.LinkDel), "interface eth0 is gone", true},
		{"another interface in its place", eth0(func(l netlink.Link) error {
			return errors.Join(netlink.LinkDel(l), addForeign("eth0")())
		}), "not the one that was attached", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, _ := childtest.NewNode(t, macvlan.Devices)
			pod := netnstest.New(t)
			s := childtest.Spec(pod)
			s.MTU = 1400
			s.Routes = []netif.Route{
				{Dst: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("192.0.2.254")},
				{Dst: netip.MustParsePrefix("203.0.113.0/24"), Gateway: netip.MustParseAddr("192.0.2.254"), Table: 300},
				{Dst: netip.MustParsePrefix("2001:db8:5::/48")},
			}
			s.Rules = []netif.Rule{{From: netip.MustParsePrefix("192.0.2.7/32"), Table: 300}}
			made := childtest.MustAttach(t, n, s)
			pod.Do(t, tc.change)
			got, err := n.Driver.Check(t.Context(), s)
			if tc.want == "" {
				if diff := cmp.Diff(made, got); err != nil || diff != "" {
					t.Errorf("%v (-made +checked):\n%s", err, diff)
				}
				return
			}
			if !errors.Is(err, ifdriver.ErrMismatch) || !strings.Contains(err.Error(), tc.want) || errors.Is(err, ifdriver.ErrGone) != tc.gone {
				t.Errorf("got %v, want an ErrMismatch with %q, ErrGone %v", err, tc.want, tc.gone)
			}
		})
	}
}

func TestMacvlanIPv6_NetworkSetting_Followed(t *testing.T) {
	for _, tc := range []struct {
		ipv6     netif.IPv6
		addrs    []string
		want     []string
		settings map[string]string
	}{
		{netif.IPv6Off, []string{"192.0.2.7/24"}, []string{"192.0.2.7/24"}, map[string]string{"disable_ipv6": "1"}},
		{netif.IPv6None, []string{"192.0.2.7/24"}, []string{"192.0.2.7/24", "link-local"}, map[string]string{"disable_ipv6": "0", "ndisc_notify": "1"}},
		{netif.IPv6On, []string{"192.0.2.7/24", "2001:db8::7/64"}, []string{"192.0.2.7/24", "2001:db8::7/64", "link-local"}, map[string]string{"disable_ipv6": "0", "ndisc_notify": "1"}},
		{netif.IPv6Default, []string{"192.0.2.7/24", "2001:db8::7/64"}, []string{"192.0.2.7/24", "2001:db8::7/64"}, map[string]string{"disable_ipv6": "0", "ndisc_notify": "0", "addr_gen_mode": "1"}},
	} {
		t.Run("IPv6 "+string(tc.ipv6), func(t *testing.T) {
			n, _ := childtest.NewNode(t, macvlan.Devices)
			pod := netnstest.New(t)
			if tc.ipv6 != netif.IPv6Off {
				pod.Do(t, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0o644) })
			}
			s := childtest.Spec(pod, tc.addrs...)
			s.IPv6 = tc.ipv6
			childtest.MustAttach(t, n, s)
			if diff := cmp.Diff(tc.want, childtest.AddressesOf(t, pod, "eth0")); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			tc.settings["accept_ra"], tc.settings["accept_dad"], tc.settings["autoconf"] = "0", "0", "0"
			for setting, want := range tc.settings {
				pod.Do(t, func() error {
					text, err := os.ReadFile("/proc/sys/net/ipv6/conf/eth0/" + setting)
					if got := strings.TrimSpace(string(text)); got != want {
						t.Errorf("setting %s is %s, want %s", setting, got, want)
					}
					return err
				})
			}
			if _, err := n.Driver.Check(t.Context(), s); err != nil {
				t.Error(err)
			}
			if tc.ipv6 == netif.IPv6Default {
				return
			}
			pod.Do(t, func() error {
				turned := map[string]string{"0": "1", "1": "0"}[tc.settings["disable_ipv6"]]
				return os.WriteFile("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", []byte(turned), 0o644)
			})
			if _, err := n.Driver.Check(t.Context(), s); !errors.Is(err, ifdriver.ErrMismatch) {
				t.Errorf("with the other setting check gives %v", err)
			}
		})
	}
}
