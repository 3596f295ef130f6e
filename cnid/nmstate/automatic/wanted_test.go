// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package automatic_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/automatic"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

func on(change func(*document.IP)) document.IP {
	ip := document.IP{DHCP: new(true)}
	if change != nil {
		change(&ip)
	}
	return ip
}

func set(name, family string, ip document.IP) plan.SetAutomatic {
	return plan.SetAutomatic{Name: name, Family: family, IP: ip}
}

func TestWanted_EachFamily_SettingsUntilDisabled(t *testing.T) {
	off := document.IP{DHCP: new(false), Autoconf: new(false)}
	w := automatic.Wanted{}
	w.Set(set("eth1", document.FamilyIPv4, on(nil)), 5)
	w.Set(set("eth1", document.FamilyIPv6, on(func(ip *document.IP) { ip.Autoconf = new(true) })), 5)
	w.Set(set("eth0", document.FamilyIPv6, on(func(ip *document.IP) { ip.Autoconf = new(false) })), 4)
	clients := w.Clients("node-1")
	want := []dhcp.Config{
		{Interface: "eth0", V6: &dhcp.V6{Mode: dhcp.Stateful, Hostname: "node-1"}},
		{Interface: "eth1", V4: &dhcp.V4{Hostname: "node-1"}, V6: &dhcp.V6{Mode: dhcp.ByRouter, Hostname: "node-1"}},
	}
	if diff := cmp.Diff(want, clients); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
	four := dhcp.Key{Interface: "eth1", Family: ipfamily.IPv4}
	if w.Of(four, 5) == nil || w.Of(four, 6) != nil {
		t.Error("the settings are not those of the interface with the index")
	}
	w.Set(set("eth1", document.FamilyIPv4, off), 5)
	if w.Of(four, 5) != nil || w.Of(dhcp.Key{Interface: "eth1", Family: ipfamily.IPv6}, 5) == nil {
		t.Errorf("after the end of one family: %+v", w.Interfaces)
	}
	// Another interface of the same name has nothing of the first one.
	w.Set(set("eth1", document.FamilyIPv4, on(nil)), 7)
	if w.Of(dhcp.Key{Interface: "eth1", Family: ipfamily.IPv6}, 7) != nil {
		t.Errorf("a new interface has the settings of another one: %+v", w.Interfaces)
	}
	w.Remove("eth1")
	w.Set(set("eth0", document.FamilyIPv6, off), 4)
	if len(w.Interfaces) > 0 {
		t.Errorf("left are %+v", w.Interfaces)
	}
}

func TestWanted_ServerHostname_Sent(t *testing.T) {
	for _, c := range []struct {
		hostname string
		ip       func(*document.IP)
		want     string
	}{
		{"node-1", nil, "node-1"},
		{"node-1", func(ip *document.IP) { ip.SendHostname = new(false) }, ""},
		{"node-1", func(ip *document.IP) { ip.SendHostname, ip.CustomHostname = new(true), "other" }, "other"},
		{"(none)", nil, ""},
	} {
		w := automatic.Wanted{}
		w.Set(set("eth1", document.FamilyIPv4, on(c.ip)), 5)
		if got := w.Clients(c.hostname)[0].V4.Hostname; got != c.want {
			t.Errorf("%s: %q, want %q", c.hostname, got, c.want)
		}
	}
}

func TestWanted_Settings_ShownOnOwnInterfaceOnly(t *testing.T) {
	w := automatic.Wanted{Static: &document.Resolver{Server: []string{"192.0.2.53"}}}
	w.Set(set("eth1", document.FamilyIPv4, on(func(ip *document.IP) { ip.AutoDNS = new(false) })), 5)
	w.Set(set("eth2", document.FamilyIPv4, on(nil)), 6)
	plain := func(name string) document.Interface {
		return document.Interface{
			Name: name,
			IPv4: &document.IP{Enabled: new(false), DHCP: new(false)},
			IPv6: &document.IP{Enabled: new(true), DHCP: new(false), Autoconf: new(true)},
		}
	}
	state := &document.State{
		Interfaces: []document.Interface{plain("eth0"), plain("eth1"), plain("eth2")},
		DNS:        &document.DNS{Config: &document.Resolver{Server: []string{"192.0.2.53", "192.0.2.2"}}},
	}
	w.Show(state, func(name string) int { return map[string]int{"eth1": 5, "eth2": 66}[name] })
	changed := plain("eth1")
	changed.IPv4.Enabled, changed.IPv4.DHCP, changed.IPv4.AutoDNS = new(true), new(true), new(false)
	if diff := cmp.Diff([]document.Interface{plain("eth0"), changed, plain("eth2")}, state.Interfaces); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(w.Static, state.DNS.Config); diff != "" {
		t.Errorf("the resolver: %s", diff)
	}
}

// lease is one with everything.
func lease(now time.Time) *dhcp.Lease {
	return &dhcp.Lease{
		Address: netip.MustParsePrefix("192.0.2.77/24"), MTU: 1400, Expires: now.Add(time.Minute), Preferred: now.Add(time.Minute),
		Routes: []dhcp.Route{
			{Destination: netip.MustParsePrefix("0.0.0.0/0"), Gateway: netip.MustParseAddr("192.0.2.1")},
			{Destination: netip.MustParsePrefix("198.51.100.0/24"), Gateway: netip.MustParseAddr("10.0.0.1"), OnLink: true},
		},
		DNS: []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("fe80::53")}, Search: []string{"lease.example"},
	}
}

func TestWanted_LeaseSettings_SelectUsedParts(t *testing.T) {
	now := time.Now()
	held := dhcp.Held{Key: dhcp.Key{Interface: "eth1", Family: ipfamily.IPv4}, Index: 5, Lease: lease(now)}
	network := "192.0.2.0/24 "
	for name, c := range map[string]struct {
		ip     *document.IP
		routes string
		table  uint32
		metric uint32
	}{
		"all":                 {new(on(nil)), network + "0.0.0.0/0 198.51.100.0/24 ", 254, automatic.DefaultMetric},
		"no gateway":          {new(on(func(ip *document.IP) { ip.AutoGateway = new(false) })), network + "198.51.100.0/24 ", 254, automatic.DefaultMetric},
		"no routes":           {new(on(func(ip *document.IP) { ip.AutoRoutes = new(false) })), network, 254, automatic.DefaultMetric},
		"table and metric":    {new(on(func(ip *document.IP) { ip.AutoTable, ip.AutoMetric = new(int64(50)), new(int64(7)) })), network + "0.0.0.0/0 198.51.100.0/24 ", 50, 7},
		"the main table as 0": {new(on(func(ip *document.IP) { ip.AutoTable = new(int64(0)) })), network + "0.0.0.0/0 198.51.100.0/24 ", 254, automatic.DefaultMetric},
	} {
		got := automatic.Learned(held, c.ip, now)
		words := ""
		for _, r := range got.Routes {
			words += r.Destination.String() + " "
			if r.Table != c.table || r.Metric != c.metric || r.MTU != 1400 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if words != c.routes || got.Address != held.Lease.Address || got.Valid != 60 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	nothing := kernel.Learned{Index: 5, Family: unix.AF_INET}
	compare := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	for name, got := range map[string]kernel.Learned{
		"no settings": automatic.Learned(held, nil, now), "expired": automatic.Learned(held, new(on(nil)), now.Add(time.Hour)),
		"no lease": automatic.Learned(dhcp.Held{Key: held.Key, Index: 5}, new(on(nil)), now),
	} {
		if diff := cmp.Diff(nothing, got, compare); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWanted_ResolvConf_StaticEntriesFirst(t *testing.T) {
	now := time.Now()
	held := dhcp.Held{Key: dhcp.Key{Interface: "eth1", Family: ipfamily.IPv4}, Lease: lease(now)}
	known := automatic.Known{Clients: []automatic.Client{automatic.KnownOf(held, new(on(nil)))}}
	static := document.Resolver{Server: []string{"192.0.2.2", "192.0.2.53"}, Search: []string{"example.com"}, Options: []string{"rotate"}}
	want := document.Resolver{
		Server:  []string{"192.0.2.2", "192.0.2.53", "fe80::53%eth1"},
		Search:  []string{"example.com", "lease.example"},
		Options: []string{"rotate"},
	}
	if diff := cmp.Diff(want, automatic.Resolver(static, known)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	without := on(func(ip *document.IP) { ip.AutoDNS = new(false) })
	known.Clients[0] = automatic.KnownOf(held, &without)
	if diff := cmp.Diff(static, automatic.Resolver(static, known)); diff != "" {
		t.Errorf("without auto-dns: %s", diff)
	}
}

func TestAutomaticWait_NamedAddresses_Awaited(t *testing.T) {
	have := func(four, six string) document.Interface {
		i := document.Interface{Name: "eth1", IPv4: &document.IP{}, IPv6: &document.IP{Addresses: []document.Address{{IP: "fe80::7"}}}}
		if four != "" {
			i.IPv4.Addresses = append(i.IPv4.Addresses, document.Address{IP: four})
		}
		if six != "" {
			i.IPv6.Addresses = append(i.IPv6.Addresses, document.Address{IP: six})
		}
		return i
	}
	for _, c := range []struct {
		wait, four, six string
		want            bool
	}{
		{"", "", "", false},
		{"", "192.0.2.7", "", true},
		{"", "", "2001:db8::7", false},
		{document.WaitAny, "", "", false},
		{document.WaitAny, "", "2001:db8::7", true},
		{document.WaitIPv4, "", "2001:db8::7", false},
		{document.WaitIPv4, "192.0.2.7", "", true},
		{document.WaitIPv6, "192.0.2.7", "", false},
		{document.WaitIPv6, "", "2001:db8::7", true},
		{document.WaitBoth, "192.0.2.7", "", false},
		{document.WaitBoth, "192.0.2.7", "2001:db8::7", true},
	} {
		if got := automatic.HasAddresses(document.Interface{WaitIP: c.wait, IPv4: new(on(nil))}, have(c.four, c.six)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestAutomaticWait_Dummy_NoWait, which reaches no server, unless the document says so.
func TestAutomaticWait_Dummy_NoWait(t *testing.T) {
	for wait, want := range map[string]bool{"": true, document.WaitAny: false, document.WaitIPv4: false} {
		if got := automatic.HasAddresses(document.Interface{WaitIP: wait, IPv4: new(on(nil))}, document.Interface{Type: document.Dummy}); got != want {
			t.Errorf("wait-ip %q: %v", wait, got)
		}
	}
}

func TestAutomaticWait_InterfaceWithPorts_OnlyIfRequested(t *testing.T) {
	for kind, want := range map[string]bool{
		document.Ethernet: true, document.VLANType: true, document.LinuxBridge: false, document.Bond: false, document.VRFType: false,
	} {
		if got := automatic.IsAwaited(document.Interface{Type: kind}); got != want {
			t.Errorf("%s: %v", kind, got)
		}
		if !automatic.IsAwaited(document.Interface{Type: kind, WaitIP: document.WaitAny}) {
			t.Errorf("%s with wait-ip is not awaited", kind)
		}
	}
}

func TestAutomaticWait_ServerSilent_ErrorNamesServer(t *testing.T) {
	want := document.Interface{Name: "eth1", IPv4: new(on(nil)), IPv6: &document.IP{Autoconf: new(true)}}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	known := automatic.Known{
		Clients: []automatic.Client{{Key: dhcp.Key{Interface: "eth1", Family: ipfamily.IPv4}, Problem: "no answer of a DHCP server", Since: since}},
	}
	got := automatic.Lacking(want, known).Error()
	for _, part := range []string{"eth1 has no address: DHCP for", "DHCP for IPv4 on eth1: no answer of a DHCP server, since 2026-01-02T03:04:05Z", "no router advertises a network"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in %q", part, got)
		}
	}
}

func TestAutomaticWait_ControllerWithoutPorts_NoWait(t *testing.T) {
	empty, full := &document.Bridge{}, &document.Bridge{Ports: []document.BridgePort{{Name: "eth1"}}}
	for _, c := range []struct {
		wait string
		is   document.Interface
		want bool
	}{
		{"", document.Interface{Bridge: empty}, true},
		{"", document.Interface{Bond: &document.LinkAggregation{Ports: []string{}}}, true},
		{"", document.Interface{Bridge: full}, false},
		{document.WaitAny, document.Interface{Bridge: empty}, false},
	} {
		if got := automatic.HasAddresses(document.Interface{WaitIP: c.wait, IPv4: new(on(nil))}, c.is); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
