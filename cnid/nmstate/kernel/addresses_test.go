// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/system/netns/netnstest"
)

// pairTo makes a pair in the thread's namespace, with its other end in another one.
func pairTo(name, peer, path string) error {
	file, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	return errors.Join(netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer, PeerNamespace: netlink.NsFd(file)}), unix.Close(file))
}

// lastPart is the end of an error's text, from the last name on.
func lastPart(err error) string {
	parts := strings.Split(err.Error(), ": ")
	return strings.Join(parts[max(0, len(parts)-2):], ": ")
}

func addresses(list ...document.Address) []document.Address {
	return append([]document.Address{}, list...)
}

func TestForwarding_OneOfTwoInterfaces_OnlyItForwards(t *testing.T) {
	k, n := open(t)
	do(t, k, pair())
	for _, on := range []bool{true, false} {
		do(t, k, plan.SetForwarding{Name: "a", Family: document.FamilyIPv4, On: on}, plan.SetForwarding{Name: "b", Family: document.FamilyIPv6, On: on})
		a, b := find(t, k, "a"), find(t, k, "b")
		want(t, []bool{*a.IPv4.Forwarding, *a.IPv6.Forwarding, *b.IPv4.Forwarding, *b.IPv6.Forwarding}, []bool{on, false, false, on})
		word := map[bool]string{true: "1", false: "0"}[on]
		want(t, n.Setting(t, "ipv4", "a", "forwarding")+n.Setting(t, "ipv6", "b", "forwarding"), word+word)
	}
}

// TestAddress_WithPeer_Removed: the kernel shows the peer's network, which no document has.
func TestAddress_WithPeer_Removed(t *testing.T) {
	k, n := open(t)
	do(t, k, pair(), plan.SetUp{Name: "a"})
	n.Do(t, netnstest.OnLink("a", func(l netlink.Link) error {
		for own, peer := range map[string]string{"10.77.0.1/32": "10.77.0.2/32", "10.77.1.1/32": "10.77.2.0/24", "2001:db8::1/128": "2001:db8::2/128"} {
			address, err := netlink.ParseAddr(own)
			if err != nil {
				return err
			}
			if address.Peer, err = netlink.ParseIPNet(peer); err != nil {
				return err
			}
			if err := netlink.AddrAdd(l, address); err != nil {
				return err
			}
		}
		return nil
	}))
	i := find(t, k, "a")
	if len(i.IPv4.Addresses) != 2 || len(i.IPv6.Addresses) != 1 {
		t.Fatalf("the addresses are %v, %v", i.IPv4.Addresses, i.IPv6.Addresses)
	}
	for _, a := range append(i.IPv4.Addresses, i.IPv6.Addresses...) {
		do(t, k, plan.RemoveAddress{Name: "a", Address: a}, plan.RemoveAddress{Name: "a", Address: a})
	}
	i = find(t, k, "a")
	want(t, append(i.IPv4.Addresses, i.IPv6.Addresses...), addresses())
}

func TestAddresses_Several_KernelOrderKept(t *testing.T) {
	k, _ := open(t)
	one, two, three := document.Address{
		IP:           "192.0.2.9",
		PrefixLength: 24,
	}, document.Address{
		IP:           "192.0.2.1",
		PrefixLength: 24,
	}, document.Address{
		IP:           "198.51.100.1",
		PrefixLength: 32,
	}
	six, linkLocal := document.Address{IP: "2001:db8::1", PrefixLength: 64}, document.Address{IP: "fe80::42", PrefixLength: 64}
	do(t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"})
	for range 2 { // the second time it is there already
		for _, a := range []document.Address{one, two, three, six, linkLocal} {
			do(t, k, plan.AddAddress{Name: "a", Address: a})
		}
	}
	got := find(t, k, "a")
	// The kernel lists the first one of each network before all others.
	want(t, got.IPv4.Addresses, addresses(one, three, two))
	want(t, *got.IPv4.Enabled, true)
	if len(got.IPv6.Addresses) != 2 || !strings.Contains(got.IPv6.Addresses[0].IP+got.IPv6.Addresses[1].IP, "fe80::42") {
		t.Errorf("addresses of IPv6 are %v, want those that were added alone", got.IPv6.Addresses)
	}
	want(t, find(t, k, "b").IPv6.Addresses, addresses()) // It has the kernel's alone.
	for range 2 {                                        // the second time it is gone already
		do(t, k, plan.RemoveAddress{Name: "a", Address: three}, plan.RemoveAddress{Name: "a", Address: six})
	}
	got = find(t, k, "a")
	want(t, got.IPv4.Addresses, addresses(one, two))
	want(t, got.IPv6.Addresses, addresses(linkLocal))
	do(t, k, plan.RemoveAddress{Name: "none", Address: one})
}

func TestAddress_OtherPrefixLength_Error(t *testing.T) {
	k, _ := open(t)
	do(t, k, pair(), plan.AddAddress{Name: "a", Address: document.Address{IP: "2001:db8::1", PrefixLength: 64}})
	err := k.Do(t.Context(), plan.AddAddress{Name: "a", Address: document.Address{IP: "2001:db8::1", PrefixLength: 48}})
	if !errors.Is(err, unix.EEXIST) {
		t.Errorf("%v, want EEXIST", err)
	}
	for _, wrong := range []document.Address{{IP: "192.0.2.1", PrefixLength: 33}, {IP: "x", PrefixLength: 1}, {IP: "::ffff:192.0.2.1", PrefixLength: 100}, {IP: "fe80::1%a", PrefixLength: 64}} {
		if err := k.Do(t.Context(), plan.AddAddress{Name: "a", Address: wrong}); err == nil {
			t.Errorf("%v was added", wrong)
		}
	}
}

// route is one with table and metric.
func route(destination, via, dev string, table, metric int64) document.Route {
	return document.Route{Destination: destination, Address: via, Interface: dev, Table: &table, Metric: &metric}
}

// TestGateway_OffLink_ReachedOnLink, and a gateway on it as always.
func TestGateway_OffLink_ReachedOnLink(t *testing.T) {
	k, n := open(t)
	off, on := route("0.0.0.0/0", "198.51.100.1", "a", 254, 0), route("203.0.113.0/24", "192.0.2.1", "a", 254, 0)
	six, alone := route("::/0", "2001:db8:9::1", "a", 254, 1024), route("0.0.0.0/0", "198.51.100.1", "b", 100, 7)
	do(t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"}, plan.AddAddress{Name: "a", Address: document.Address{IP: "192.0.2.7", PrefixLength: 24}})
	for range 2 { // the second time it is there already
		for _, r := range []document.Route{off, on, six, alone} {
			do(t, k, plan.AddRoute{Route: r})
		}
	}
	want(t, show(t, k).Routes.Config, []document.Route{alone, off, on, six})
	onlink := map[string]bool{}
	n.Do(t, func() error {
		list, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{}, netlink.RT_FILTER_TABLE)
		for _, r := range list {
			if r.Gw != nil {
				onlink[r.Gw.String()] = r.Flags&int(netlink.FLAG_ONLINK) != 0
			}
		}
		return err
	})
	for gateway, is := range map[string]bool{"198.51.100.1": true, "192.0.2.1": false, "2001:db8:9::1": true} {
		if onlink[gateway] != is {
			t.Errorf("the route by %s is onlink: %v, want %v", gateway, onlink[gateway], is)
		}
	}
	for _, r := range []document.Route{off, on, six, alone} {
		do(t, k, plan.RemoveRoute{Route: r})
	}
	if left := show(t, k).Routes.Config; len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestGateway_OtherLinkNetwork_ReachedByOwnLink, and the way to it is gone afterwards.
func TestGateway_OtherLinkNetwork_ReachedByOwnLink(t *testing.T) {
	k, _ := open(t)
	four, six := route("0.0.0.0/0", "198.51.100.1", "a", 254, 200), route("::/0", "2001:db8:2::f", "a", 254, 201)
	do(t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"},
		plan.AddAddress{Name: "a", Address: document.Address{IP: "2001:db8:1::1", PrefixLength: 64}},
		plan.AddAddress{Name: "b", Address: document.Address{IP: "198.51.100.7", PrefixLength: 24}},
		plan.AddAddress{Name: "b", Address: document.Address{IP: "2001:db8:2::1", PrefixLength: 64}})
	for range 2 { // the second time it is there already
		do(t, k, plan.AddRoute{Route: four}, plan.AddRoute{Route: six})
		want(t, show(t, k).Routes.Config, []document.Route{four, six})
	}
	other := route("::/0", "2001:db8:2::e", "a", 254, 201)
	if err := k.Do(t.Context(), plan.AddRoute{Route: other}); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a second route with the metric: %v", err)
	}
	want(t, show(t, k).Routes.Config, []document.Route{four, six})
	do(t, k, plan.RemoveRoute{Route: four}, plan.RemoveRoute{Route: six})
	if left := show(t, k).Routes.Config; len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// routesTo returns the routes that a test adds, in the order of Show.
func routesTo() []document.Route {
	typed := func(kind, destination string, table, metric int64) document.Route {
		r := route(destination, "", "", table, metric)
		r.Type = kind
		return r
	}
	tuned := route("203.0.113.0/25", "192.0.2.254", "a", 254, 0)
	tuned.MTU, tuned.LockMTU, tuned.AdvMSS, tuned.InitCwnd, tuned.InitRwnd, tuned.QuickACK = new(1400), new(true), new(1300), new(20), new(30), new(true)
	tuned6 := route("2001:db8:5::/48", "2001:db8::fe", "a", 254, 1024)
	tuned6.MTU, tuned6.InitCwnd = new(1300), new(20)
	source := route("203.0.113.0/24", "192.0.2.254", "a", 254, 100)
	source.Source = "192.0.2.1"
	return []document.Route{
		typed(document.Blackhole, "0.0.0.0/0", 200, 4278198272),
		typed(document.Prohibit, "203.0.113.0/24", 200, 0),
		route("0.0.0.0/0", "192.0.2.254", "a", 254, 0),
		route("198.51.100.0/24", "", "a", 254, 5),
		source,
		tuned,
		typed(document.Unreachable, "2001:db8:4::/48", 254, 1024),
		tuned6,
		route("203.0.113.128/25", "192.0.2.254", "a", 255, 0),
		route("::/0", "2001:db8::fe", "a", 1000, 1024),
		route("0.0.0.0/0", "2001:db8::fe", "a", 100000, 0),
		route("2001:db8:2::/48", "", "a", 100000, 7),
	}
}

func TestRoutes_AllTables_ShownAsAdded(t *testing.T) {
	k, _ := open(t)
	do(
		t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"},
		plan.AddAddress{Name: "a", Address: document.Address{IP: "192.0.2.1", PrefixLength: 24}},
		plan.AddAddress{Name: "a", Address: document.Address{IP: "2001:db8::1", PrefixLength: 64}})
	want(t, show(t, k).Routes, &document.Routes{Running: []document.Route{}, Config: []document.Route{}})
	for range 2 {
		for _, r := range routesTo() {
			do(t, k, plan.AddRoute{Route: r})
		}
	}
	want(t, show(t, k).Routes, &document.Routes{Running: routesTo(), Config: routesTo()})
	for range 2 {
		for _, r := range routesTo() {
			do(t, k, plan.RemoveRoute{Route: r})
		}
	}
	want(t, show(t, k).Routes.Config, []document.Route{})
	do(t, k, plan.RemoveRoute{Route: route("0.0.0.0/0", "192.0.2.254", "none", 254, 0)})
}

func TestRoute_BlockedByOther_Error(t *testing.T) {
	k, _ := open(t)
	do(
		t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"}, plan.AddAddress{Name: "a", Address: document.Address{IP: "192.0.2.1", PrefixLength: 24}},
		plan.AddRoute{Route: route("198.51.100.0/24", "192.0.2.254", "a", 254, 0)})
	if err := k.Do(t.Context(), plan.AddRoute{Route: route("198.51.100.0/24", "192.0.2.253", "a", 254, 0)}); !errors.Is(err, unix.EEXIST) {
		t.Errorf("%v, want EEXIST", err)
	}
}

func TestMultipathRoutes_State_OnlyRunning(t *testing.T) {
	k, n := open(t)
	do(
		t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"}, plan.AddAddress{Name: "a", Address: document.Address{IP: "192.0.2.1", PrefixLength: 24}},
		plan.AddAddress{Name: "b", Address: document.Address{IP: "198.51.100.1", PrefixLength: 24}})
	n.Do(t, func() error {
		a, _ := netlink.LinkByName("a")
		b, err := netlink.LinkByName("b")
		if err != nil {
			return err
		}
		to, _ := netlink.ParseIPNet("203.0.113.0/24")
		return netlink.RouteAdd(&netlink.Route{Dst: to, Protocol: unix.RTPROT_STATIC, MultiPath: []*netlink.NexthopInfo{
			{LinkIndex: b.Attrs().Index, Gw: []byte{198, 51, 100, 254}}, {LinkIndex: a.Attrs().Index, Gw: []byte{192, 0, 2, 254}},
		}})
	})
	want(t, show(t, k).Routes, &document.Routes{Config: []document.Route{}, Running: []document.Route{
		route("203.0.113.0/24", "192.0.2.254", "a", 254, 0), route("203.0.113.0/24", "198.51.100.254", "b", 254, 0),
	}})
}

func TestRoutes_DaemonsAndDHCP_NotInConfiguration(t *testing.T) {
	k, n := open(t)
	do(t, k, pair(), plan.SetUp{Name: "a"}, plan.SetUp{Name: "b"})
	for destination, protocol := range map[string]netlink.RouteProtocol{"192.0.2.0/24": unix.RTPROT_BIRD, "198.51.100.0/24": unix.RTPROT_DHCP, "203.0.113.0/24": unix.RTPROT_BOOT} {
		n.Do(t, netnstest.OnLink("a", func(l netlink.Link) error {
			to, err := netlink.ParseIPNet(destination)
			if err != nil {
				return err
			}
			return netlink.RouteAdd(&netlink.Route{Dst: to, Protocol: protocol, LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK})
		}))
	}
	dhcp, boot := route("198.51.100.0/24", "", "a", 254, 0), route("203.0.113.0/24", "", "a", 254, 0)
	dhcp.Protocol = document.ProtocolDHCP
	want(t, show(t, k).Routes, &document.Routes{Running: []document.Route{dhcp, boot}, Config: []document.Route{boot}})
	do(t, k, plan.RemoveRoute{Route: boot}) // It is not of the engine's own protocol.
	want(t, show(t, k).Routes.Config, []document.Route{})
}

// rule is one with family, priority and table.
func rule(family string, priority, table int64, set func(*document.RouteRule)) document.RouteRule {
	r := document.RouteRule{Family: family, Priority: &priority, Table: &table}
	if set != nil {
		set(&r)
	}
	return r
}

func TestRules_Added_ShownUnchanged(t *testing.T) {
	k, _ := open(t)
	want(t, show(t, k).RouteRules, &document.RouteRules{Config: []document.RouteRule{}})
	rules := []document.RouteRule{
		rule(document.FamilyIPv4, 0, 254, func(r *document.RouteRule) { r.From = "192.0.2.0/24" }),
		rule(document.FamilyIPv4, 100, 200, func(r *document.RouteRule) { r.From, r.To = "192.0.2.0/24", "198.51.100.1/32" }),
		rule(document.FamilyIPv4, 101, 100000, func(r *document.RouteRule) { r.Mark, r.Mask = new(uint32(0x80)), new(uint32(0xff)) }),
		rule(document.FamilyIPv4, 102, 254, func(r *document.RouteRule) { r.Mark, r.SuppressPrefixLength = new(uint32(1)), new(0) }),
		rule(document.FamilyIPv4, 103, 254, func(r *document.RouteRule) { r.Action, r.IncomingInterface = document.Blackhole, "a" }),
		rule(document.FamilyIPv4, 32766, 100, nil),
		rule(document.FamilyIPv6, 100, 200, func(r *document.RouteRule) { r.From = "2001:db8::/32" }),
		rule(document.FamilyIPv6, 4294967295, 254, func(r *document.RouteRule) { r.Action = document.Unreachable }),
	}
	for range 2 {
		for _, r := range rules {
			do(t, k, plan.AddRule{Rule: r})
		}
	}
	want(t, show(t, k).RouteRules.Config, rules)
	for range 2 {
		for _, r := range rules {
			do(t, k, plan.RemoveRule{Rule: r})
		}
	}
	want(t, show(t, k).RouteRules.Config, []document.RouteRule{})
}

func TestRules_NotExpressible_NotShown(t *testing.T) {
	k, n := open(t)
	n.Do(t, func() error {
		byPort, byDevice, not := netlink.NewRule(), netlink.NewRule(), netlink.NewRule()
		byPort.Priority, byPort.Table, byPort.Dport = 10, 100, netlink.NewRulePortRange(80, 80)
		byDevice.Priority, byDevice.Table, byDevice.OifName = 11, 100, "a"
		not.Priority, not.Table, not.Invert, not.Mark = 12, 100, true, 3
		return errors.Join(netlink.RuleAdd(byPort), netlink.RuleAdd(byDevice), netlink.RuleAdd(not))
	})
	want(t, show(t, k).RouteRules.Config, []document.RouteRule{})
}

func TestKernelSteps_ContextCanceled_AllEnd(t *testing.T) {
	k, _ := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Do(ctx, pair()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it cancelled", err)
	}
	if _, err := k.Show(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it cancelled", err)
	}
	want(t, names(show(t, k)), []string{"lo"})
}
