// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

func resolve(t *testing.T, desired string) *target.Target {
	t.Helper()
	to, err := target.Resolve(parse(t, desired), parse(t, host))
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// expect compares interfaces of a target with a document.
func expect(t *testing.T, to *target.Target, text string) {
	t.Helper()
	var want []document.Interface
	if err := yaml.UnmarshalStrict([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(to.Interfaces)
	if err != nil {
		t.Fatal(err)
	}
	wanted, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(wanted) {
		t.Errorf("got\n%s\nwant\n%s", got, wanted)
	}
}

func TestMerge_FieldUnset_Unchanged(t *testing.T) {
	expect(t, resolve(t, "interfaces: [{name: eth0, mtu: 9000, mac-address: 02:00:00:00:00:0a, permanent-mac-address: x, min-mtu: 1, ipv6: {enabled: false}}]"), `
- {name: eth0, type: ethernet, state: up, mtu: 9000, min-mtu: 68, max-mtu: 9000, mac-address: "02:00:00:00:00:0A", controller: "", ipv4: {enabled: true, address: [{ip: 192.0.2.7, prefix-length: 24}]}, ipv6: {enabled: false, address: []}}`)
}

func TestMerge_EmptyListOrDisabledFamily_AddressesRemoved(t *testing.T) {
	for _, ip := range []string{"{address: []}", "{enabled: true, address: []}"} {
		if i := resolve(t, "interfaces: [{name: eth2, ipv4: "+ip+"}]").Interfaces[0]; len(i.IPv4.Addresses) != 0 || i.IPv4.Addresses == nil {
			t.Errorf("%s: %+v", ip, i.IPv4)
		}
	}
	if i := resolve(t, "interfaces: [{name: eth2, ipv4: {enabled: false}}]").Interfaces[0]; i.IPv4.Addresses == nil || len(i.IPv4.Addresses) != 0 {
		t.Errorf("%+v", i.IPv4)
	}
}

func TestMerge_BondOptionsAndLists_MergedAndReplaced(t *testing.T) {
	expect(t, resolve(t, "interfaces: [{name: bond0, link-aggregation: {options: {updelay: 200}, port: [eth2, eth1]}}]"), `
- {name: bond0, type: bond, state: up, mtu: 1500, controller: "", link-aggregation: {mode: active-backup, port: [eth2, eth1], options: {miimon: 100, primary: eth1, updelay: 200}}}
- {name: eth1, type: ethernet, state: up, mtu: 1500, controller: bond0, ipv4: {address: []}, ipv6: {address: []}}
- {name: eth2, type: ethernet, state: up, mtu: 1500, controller: bond0, ipv4: {enabled: true, address: []}, ipv6: {address: []}}`)
}

func TestMerge_FormerPort_DetachedAndOptionDropped(t *testing.T) {
	expect(t, resolve(t, "interfaces: [{name: bond0, link-aggregation: {port: []}}]"), `
- {name: bond0, type: bond, state: up, mtu: 1500, controller: "", link-aggregation: {mode: active-backup, port: [], options: {miimon: 100}}}
- {name: eth1, type: ethernet, state: up, mtu: 1500, controller: ""}`)
}

func TestMerge_ControllerAbsent_VLANRemovedPortsDetached(t *testing.T) {
	for _, state := range []string{"absent", "down"} {
		to := resolve(t, "interfaces: [{name: bond0, mtu: 1, state: "+state+"}]")
		expect(t, to, `
- {name: bond0, type: bond, state: absent}
- {name: bond0.5, type: vlan, state: absent}
- {name: eth1, type: ethernet, state: up, mtu: 1500, controller: ""}`)
		if slices.ContainsFunc(to.Routes, func(r document.Route) bool { return r.Interface == "bond0.5" }) {
			t.Errorf("a route of bond0.5 is left: %+v", to.Routes)
		}
	}
}

func TestMerge_PhysicalAbsentOrDown_AddressesRoutesRemoved(t *testing.T) {
	for _, state := range []string{"absent", "down"} {
		to := resolve(t, "interfaces: [{name: eth2, state: "+state+"}]")
		i := to.Interfaces[0]
		if i.State != state || len(i.IPv4.Addresses) > 0 || i.IPv4.Addresses == nil || len(to.Routes) != 2 {
			t.Errorf("%+v, routes %+v", i, to.Routes)
		}
	}
}

func TestMerge_IgnoredInterface_LeftOut(t *testing.T) {
	if to := resolve(t, "interfaces: [{name: eth0, state: ignore, mtu: 5}, {name: eth9, type: ethernet, state: ignore}]"); len(to.Interfaces) != 0 {
		t.Errorf("%+v", to.Interfaces)
	}
}

func TestMerge_BothVethEnds_OnePair(t *testing.T) {
	const both = `
- {name: vc, type: veth, state: up, veth: {peer: vd}}
- {name: vd, type: veth, state: up, veth: {peer: vc}}`
	for _, text := range []string{
		"{name: vc, type: veth, veth: {peer: vd}}",
		"{name: vc, type: veth, veth: {peer: vd}}, {name: vd}",
		"{name: vd, type: ethernet}, {name: vc, type: veth, veth: {peer: vd}}",
		"{name: vc, type: veth, veth: {peer: vd}}, {name: vd, type: veth, veth: {peer: vc}}",
	} {
		expect(t, resolve(t, "interfaces: ["+text+"]"), both)
	}
	expect(t, resolve(t, "interfaces: [{name: va, state: absent}]"), `
- {name: va, type: veth, state: absent}
- {name: vb, type: veth, state: absent}`)
	if i := resolve(t, "interfaces: [{name: va, type: ethernet}]").Interfaces[0]; i.Type != document.VethPair {
		t.Errorf("one end named as ethernet: %+v", i)
	}
}

func TestMerge_LargerVFCount_NewFunctionsAllowed(t *testing.T) {
	to := resolve(t, "interfaces: [{name: eth0, ethernet: {sr-iov: {total-vfs: 2}}}, {name: eth0v1, type: ethernet, mtu: 1400}]")
	if len(to.Interfaces) != 2 || to.Interfaces[1].Name != "eth0v1" {
		t.Errorf("%+v", to.Interfaces)
	}
}

func TestMerge_RouteAndRulePatterns_AddedAndDeleted(t *testing.T) {
	const text = `
routes:
  config:
  - {state: absent, next-hop-interface: eth0}
  - {destination: 203.0.113.9/24, next-hop-interface: eth2, next-hop-address: 198.51.100.1}
  - {destination: 0.0.0.0/0, next-hop-interface: eth0, next-hop-address: 192.0.2.254, table-id: 0}
  - {destination: "2001:DB8:1::/48", next-hop-interface: eth0}
  - {destination: 192.0.2.128/25, route-type: blackhole, table-id: 9, metric: 5}
route-rules:
  config:
  - {state: absent, ip-from: 192.0.2.0/24}
  - {ip-to: "2001:db8::1/32", route-table: 0}`
	to := resolve(t, text)
	number := func(n int64) *int64 { return &n }
	wantRoutes := []document.Route{
		{Destination: "203.0.113.0/24", Interface: "eth2", Address: "198.51.100.1", Metric: number(0), Table: number(254)},
		{Destination: "2001:db8::/32", Interface: "bond0.5", Metric: number(1024), Table: number(100)},
		{Destination: "0.0.0.0/0", Interface: "eth0", Address: "192.0.2.254", Metric: number(0), Table: number(254)},
		{Destination: "2001:db8:1::/48", Interface: "eth0", Metric: number(1024), Table: number(254)},
		{Destination: "192.0.2.128/25", Type: document.Blackhole, Metric: number(5), Table: number(9)},
	}
	if !reflect.DeepEqual(to.Routes, wantRoutes) {
		t.Errorf("%+v", to.Routes)
	}
	wantRules := []document.RouteRule{{Family: document.FamilyIPv6, To: "2001:db8::/32", Priority: number(30000), Table: number(254)}}
	if !reflect.DeepEqual(to.Rules, wantRules) {
		t.Errorf("%+v", to.Rules)
	}
}

func TestMerge_ShownState_Accepted(t *testing.T) {
	shown := parse(t, host)
	to, err := target.Resolve(shown, shown)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(to.Routes, shown.Routes.Config) || !reflect.DeepEqual(to.Rules, shown.RouteRules.Config) {
		t.Errorf("routes and rules are other ones: %+v %+v", to.Routes, to.Rules)
	}
}

func TestBack_NewObjects_TakenAway(t *testing.T) {
	to := target.Back(parse(t, host), []string{"eth2", "dummy0", "bond0"})
	if len(to.Interfaces) != 3 || to.Interfaces[1].State != document.Absent || to.Interfaces[1].Name != "dummy0" {
		t.Fatalf("%+v", to.Interfaces)
	}
	if eth2 := to.Interfaces[2]; *eth2.Description != "" || *eth2.AcceptAllMACAddresses || eth2.IPv6.Addresses == nil {
		t.Errorf("%+v", eth2)
	}
	if len(to.Routes) != 3 || len(to.Rules) != 1 || to.Resolver != nil {
		t.Errorf("%+v", to)
	}
}

// pathed is an error that begins with the path of a field, or with an interface that the document
// does not name.
var pathed = regexp.MustCompile(`^(interfaces|interface |routes\.|route-rules\.|dns-resolver\.)\S*.*: `)

func allPathed(err error) bool {
	for line := range strings.Lines(err.Error()) {
		if !pathed.MatchString(line) {
			return false
		}
	}
	return true
}

// FuzzResolve never ends in a panic, whatever the document.
func FuzzResolve(f *testing.F) {
	current := parse(f, host)
	f.Add(host)
	for _, text := range []string{
		"interfaces: [{name: va, veth: {peer: va}}, {name: vb, type: veth, controller: va}]",
		"interfaces: [{name: x, type: vlan, vlan: {base-iface: x, id: 1}}, {name: bond0.5, vlan: {base-iface: x}}]",
		"interfaces: [{name: bond0, type: bond, bridge: {port: [{name: bond0}]}}, {name: bond0, vrf: {port: ['']}}]",
		"interfaces: [{name: eth0, ethernet: {sr-iov: {vfs: [{id: 9}]}}}]",
		"routes: {config: [{destination: x, state: absent}, {destination: '::/0', next-hop-interface: ''}]}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		desired, err := document.Parse([]byte(text))
		if err != nil {
			return
		}
		to, err := target.Resolve(desired, current)
		if (to == nil) == (err == nil) {
			t.Errorf("target %v, error %v", to, err)
		}
		if err != nil && (strings.Contains(err.Error(), "%!") || !allPathed(err)) {
			t.Errorf("a broken message, or one without a path: %v", err)
		}
	})
}
