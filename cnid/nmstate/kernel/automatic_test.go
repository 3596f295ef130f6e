// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel_test

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
	"github.com/alioth-net/alioth/test/waits"
)

// routed is a namespace with the device a, whose other end is in the namespace of a router.
// Both forward, and use addresses at once.
func routed(t *testing.T) (*kernel.Kernel, *netnstest.Namespace, *netnstest.Namespace) {
	t.Helper()
	k, n := open(t)
	router := netnstest.New(t)
	for _, space := range []*netnstest.Namespace{n, router} {
		space.Do(t, func() error {
			return errors.Join(
				os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0),
				os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0))
		})
	}
	n.Do(t, func() error { return pairTo("a", "a", router.Path) })
	up := netnstest.OnLink("a", netlink.LinkSetUp)
	n.Do(t, up)
	router.Do(t, up)
	return k, n, router
}

// advertise lets a router advertise itself and 2001:db8:a::/64, once it has an address for that.
// The network 2001:db8:b::/64 is on the link for ever, and has no addresses for hosts.
func advertise(t *testing.T, router *netnstest.Namespace) {
	t.Helper()
	message := []byte{
		134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, // lifetime of 1800 s
		3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 7, 8, 0, 0, 0, 0, // valid for 3600 s, preferred for 1800 s
	}
	prefix := netip.MustParseAddr("2001:db8:a::").As16()
	message = append(message, prefix[:]...)
	onLink := netip.MustParseAddr("2001:db8:b::").As16()
	message = append(message, 3, 4, 64, 0x80, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0)
	message = append(message, onLink[:]...)
	router.Do(t, netnstest.OnLink("a", func(l netlink.Link) error {
		socket, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)
		if err != nil {
			return err
		}
		const limit = 255
		if err := unix.SetsockoptInt(socket, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, limit); err != nil {
			return err
		}
		to := &unix.SockaddrInet6{Addr: netip.MustParseAddr("ff02::1").As16(), ZoneId: uint32(l.Attrs().Index)}
		err = unix.Sendto(socket, message, 0, to)
		if errors.Is(err, unix.EADDRNOTAVAIL) {
			err = nil
		}
		return errors.Join(err, unix.Close(socket))
	}))
}

// automatic are the protocols of the automatic addresses of a family.
func automatic(ip *document.IP) (words []string) {
	for _, a := range ip.Addresses {
		if a.IsAutomatic() {
			words = append(words, a.Protocol)
		}
	}
	return words
}

// protocolsOf are the running routes, each with its protocol.
func protocolsOf(t *testing.T, k *kernel.Kernel) (words []string) {
	t.Helper()
	for _, r := range show(t, k).Routes.Running {
		words = append(words, r.Protocol+" "+r.Destination)
	}
	return words
}

// TestAutoconfiguration_ForwardingHost_AddressesObtained: nodes do, and take no advertisements by the
// kernel's default.
func TestAutoconfiguration_ForwardingHost_AddressesObtained(t *testing.T) {
	k, n, router := routed(t)
	setting := func(name string) string { return n.Setting(t, "ipv6", "a", name) }
	do(t, k, plan.SetAutomatic{Name: "a", Family: document.FamilyIPv6, IP: document.IP{DHCP: new(false), Autoconf: new(true), AutoMetric: new(int64(77))}})
	waits.True(t, 10*time.Second, "an address of an advertisement", func() bool {
		advertise(t, router)
		return len(automatic(find(t, k, "a").IPv6)) > 0
	})
	i := find(t, k, "a")
	if a := i.IPv6.Addresses[0]; a.Protocol != document.ProtocolRA || !strings.HasSuffix(a.ValidLifetime, "sec") || a.PrefixLength != 64 {
		t.Errorf("the address is %+v", a)
	}
	want(t, *i.IPv6.Autoconf, true)
	do(t, k, plan.AddAddress{Name: "a", Address: document.Address{IP: "2001:db8:c::1", PrefixLength: 64}})
	want(t, protocolsOf(t, k), []string{"ra ::/0", "ra 2001:db8:a::/64", "ra 2001:db8:b::/64"})
	want(t, *show(t, k).Routes.Running[0].Metric, 77)
	off := plan.SetAutomatic{Name: "a", Family: document.FamilyIPv6, IP: document.IP{DHCP: new(false), Autoconf: new(false)}}
	for range 2 { // the second time it is off already
		do(t, k, off)
		i = find(t, k, "a")
		want(t, automatic(i.IPv6), nil)
		want(t, *i.IPv6.Autoconf, false)
		want(t, protocolsOf(t, k), nil)
		want(t, setting("accept_ra")+setting("autoconf"), "00")
	}
	n.Do(t, func() error {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{}, 0)
		left := map[string]bool{}
		for _, r := range routes {
			if r.Dst != nil {
				left[r.Dst.String()] = true
			}
		}
		for network, stays := range map[string]bool{"2001:db8:a::/64": false, "2001:db8:b::/64": false, "2001:db8:c::/64": true} {
			if left[network] != stays {
				t.Errorf("there is a route to %s: %v, want %v", network, left[network], stays)
			}
		}
		return err
	})
	advertise(t, router)
	want(t, automatic(find(t, k, "a").IPv6), nil)
}

// TestAutoconfiguration_TokenRemoved_AddressesEnd: a new one replaces them, and so does none.
func TestAutoconfiguration_TokenRemoved_AddressesEnd(t *testing.T) {
	k, _, router := routed(t)
	for _, token := range []string{"::fac", "::a:b:c:d", document.NoToken} {
		on := document.IP{DHCP: new(false), Autoconf: new(true), Token: new(token)}
		do(t, k, plan.SetAutomatic{Name: "a", Family: document.FamilyIPv6, IP: on})
		with := strings.TrimPrefix(token, "::")
		is := func(a document.Address) bool {
			own, tokenized := strings.Contains(a.IP, "ff:fe"), strings.HasSuffix(a.IP, ":"+with)
			return tokenized && with != "" || own && with == ""
		}
		waits.True(t, 10*time.Second, "one address of an advertisement, by the token "+token, func() bool {
			advertise(t, router)
			list := find(t, k, "a").IPv6.Addresses
			return len(list) == 1 && is(list[0])
		})
		if with == "" {
			want(t, find(t, k, "a").IPv6.Token, nil)
		} else {
			want(t, *find(t, k, "a").IPv6.Token, token)
		}
	}
}

// TestAutoconfiguration_Settings_SelectAcceptedParts of an advertisement.
func TestAutoconfiguration_Settings_SelectAcceptedParts(t *testing.T) {
	k, _, router := routed(t)
	on := document.IP{DHCP: new(false), Autoconf: new(true), AutoGateway: new(false)}
	do(t, k, plan.SetAutomatic{Name: "a", Family: document.FamilyIPv6, IP: on})
	waits.True(t, 10*time.Second, "an address of an advertisement", func() bool {
		advertise(t, router)
		return len(automatic(find(t, k, "a").IPv6)) > 0
	})
	want(t, protocolsOf(t, k), []string{"ra 2001:db8:a::/64", "ra 2001:db8:b::/64"})
}

// TestAutoconfiguration_EarlierAdvertisementRoutes_Removed with the setting that took them.
func TestAutoconfiguration_EarlierAdvertisementRoutes_Removed(t *testing.T) {
	for name, off := range map[string]document.IP{"auto-gateway": {AutoGateway: new(false)}, "auto-routes": {AutoRoutes: new(false)}} {
		t.Run(name, func(t *testing.T) {
			k, _, router := routed(t)
			on := document.IP{DHCP: new(false), Autoconf: new(true)}
			do(t, k, plan.SetAutomatic{Name: "a", Family: document.FamilyIPv6, IP: on})
			waits.True(t, 10*time.Second, "a default route of an advertisement", func() bool {
				advertise(t, router)
				return slices.Contains(protocolsOf(t, k), "ra ::/0")
			})
			off.DHCP, off.Autoconf = on.DHCP, on.Autoconf
			do(t, k, plan.SetAutomatic{Name: "a", Family: document.FamilyIPv6, IP: off})
			if left := protocolsOf(t, k); slices.Contains(left, "ra ::/0") {
				t.Errorf("left are %v", left)
			}
		})
	}
}

func TestKernelLease_GivenAndTaken_InterfaceFollows(t *testing.T) {
	k, _ := open(t)
	do(t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"}, plan.AddAddress{Name: "a", Address: document.Address{IP: "198.51.100.7", PrefixLength: 24}})
	index, err := k.Index(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	lease := kernel.Learned{
		Index: index, Family: unix.AF_INET, Address: netip.MustParsePrefix("192.0.2.77/24"), Valid: 600, Preferred: 600,
		Routes: []kernel.LearnedRoute{
			{Destination: netip.MustParsePrefix("192.0.2.0/24"), Table: 254, Metric: 100, MTU: 1400},
			{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("192.0.2.1"), Table: 254, Metric: 100, MTU: 1400},
			{Destination: netip.MustParsePrefix("203.0.113.0/24"), Gateway: netip.MustParseAddr("10.9.9.9"), OnLink: true, Table: 50, Metric: 100},
		},
	}
	learn := func(l kernel.Learned) {
		t.Helper()
		if err := k.Learn(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time nothing changes
		learn(lease)
		i := find(t, k, "a")
		want(t, automatic(i.IPv4), []string{document.ProtocolDHCP})
		want(t, protocolsOf(t, k), []string{"dhcp 203.0.113.0/24", "dhcp 0.0.0.0/0", "dhcp 192.0.2.0/24"})
	}
	renewed := lease
	renewed.Valid = 1200
	renewed.Routes = lease.Routes[:2]
	learn(renewed)
	for _, a := range find(t, k, "a").IPv4.Addresses {
		if a.IsAutomatic() && a.ValidLifetime != "1200sec" && a.ValidLifetime != "1199sec" {
			t.Errorf("the lease was renewed, and the address is %+v", a)
		}
	}
	want(t, protocolsOf(t, k), []string{"dhcp 0.0.0.0/0", "dhcp 192.0.2.0/24"})
	other := lease
	other.Address, other.Routes = netip.MustParsePrefix("192.0.2.78/24"), lease.Routes[:1]
	learn(other)
	want(t, automatic(find(t, k, "a").IPv4), []string{document.ProtocolDHCP})
	learn(kernel.Learned{Index: index, Family: unix.AF_INET})
	want(t, find(t, k, "a").IPv4.Addresses, addresses(document.Address{IP: "198.51.100.7", PrefixLength: 24}))
	want(t, protocolsOf(t, k), nil)
}

// TestKernelLease_StaticAddressEqual_Kept: a document and a server may have the same one.
func TestKernelLease_StaticAddressEqual_Kept(t *testing.T) {
	k, _ := open(t)
	static := document.Address{IP: "192.0.2.77", PrefixLength: 24}
	do(t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"}, plan.AddAddress{Name: "a", Address: static})
	index, err := k.Index(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	lease := kernel.Learned{Index: index, Family: unix.AF_INET, Address: netip.MustParsePrefix("192.0.2.77/24"), Valid: 600, Preferred: 600}
	for _, l := range []kernel.Learned{lease, {Index: index, Family: unix.AF_INET}} {
		if err := k.Learn(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		want(t, find(t, k, "a").IPv4.Addresses, addresses(static))
	}
}

func TestKernelLease_IPv6_SingleAddress(t *testing.T) {
	k, _ := open(t)
	do(t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"})
	index, err := k.Index(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	lease := kernel.Learned{Index: index, Family: unix.AF_INET6, Address: netip.MustParsePrefix("2001:db8::77/128"), Valid: 600, Preferred: 300}
	if err := k.Learn(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	i := find(t, k, "a")
	want(t, automatic(i.IPv6), []string{document.ProtocolDHCP})
	do(t, k, plan.SetAutomatic{Name: "a", Family: document.FamilyIPv6, IP: document.IP{DHCP: new(false)}})
	want(t, find(t, k, "a").IPv6.Addresses, addresses())
}
