// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// steps applies a document, and returns the words of its steps.
func (m *model) steps(t *testing.T, text string) string {
	t.Helper()
	steps := plan.Between(m.show(), resolve(t, parse(t, text), m.show()))
	var words []string
	for _, step := range steps {
		words = append(words, step.String())
		if err := m.do(step); err != nil {
			t.Fatal(err)
		}
	}
	if again := plan.Between(m.show(), resolve(t, parse(t, text), m.show())); len(again) > 0 {
		t.Errorf("%s: a second time it has steps: %v", text, again)
	}
	return strings.Join(words, "; ")
}

func eth1(text string) string { return fmt.Sprintf("interfaces: [{name: eth1, %s}]", text) }

// TestPlanAutomatic_Settings_AddressesComeAndGo plays one document after the other on one
// host.
func TestPlanAutomatic_Settings_AddressesComeAndGo(t *testing.T) {
	m := newModel("eth1")
	for _, c := range []struct{ document, steps, addresses string }{
		{eth1("ipv4: {address: [{ip: 192.0.2.7, prefix-length: 24}]}"), "set up eth1; add 192.0.2.7/24 to eth1", "192.0.2.7"},
		{eth1("ipv4: {dhcp: true}"), "set ipv4 of eth1: DHCP on", "192.0.2.7 198.51.100.77(dhcp)"},
		{eth1("mtu: 1400"), "change settings of eth1", "192.0.2.7 198.51.100.77(dhcp)"},
		{eth1("ipv4: {dhcp: true, auto-gateway: false, auto-route-table-id: 50}"), "set ipv4 of eth1: DHCP on", "192.0.2.7 198.51.100.77(dhcp)"},
		{eth1("ipv4: {address: []}"), "remove 192.0.2.7/24 from eth1", "198.51.100.77(dhcp)"},
		{eth1("ipv4: {address: [{ip: 198.51.100.77, prefix-length: 24}]}"), "", "198.51.100.77(dhcp)"},
		{eth1("ipv4: {address: [{ip: 198.51.100.77, prefix-length: 24, protocol: dhcp}]}"), "", "198.51.100.77(dhcp)"},
		{eth1("ipv4: {dhcp: false}"), "set ipv4 of eth1: DHCP off; add 198.51.100.77/24 to eth1", "198.51.100.77"},
		{eth1("ipv4: {dhcp: true, address: []}"), "remove 198.51.100.77/24 from eth1; set ipv4 of eth1: DHCP on", "198.51.100.77(dhcp)"},
		{eth1("ipv4: {dhcp: false, address: [{ip: 192.0.2.8, prefix-length: 24}]}"), "set ipv4 of eth1: DHCP off; add 192.0.2.8/24 to eth1", "192.0.2.8"},
		{eth1("ipv4: {dhcp: true, address: []}"), "remove 192.0.2.8/24 from eth1; set ipv4 of eth1: DHCP on", "198.51.100.77(dhcp)"},
		{eth1("ipv4: {enabled: false}"), "set ipv4 of eth1: DHCP off", ""},
		{eth1("ipv6: {autoconf: true, dhcp: true}"), "set ipv6 of eth1: DHCP on, autoconfiguration on", "2001:db8:a::77(ra) 2001:db8:d::77(dhcp)"},
		{eth1("ipv6: {autoconf: false}"), "set ipv6 of eth1: DHCP on, autoconfiguration off", "2001:db8:d::77(dhcp)"},
		{eth1("ipv6: {enabled: true, autoconf: true, dhcp: false, address: []}"), "set ipv6 of eth1: DHCP off, autoconfiguration on", "2001:db8:a::77(ra)"},
		{eth1("ipv6: {autoconf: false, dhcp: false}"), "set ipv6 of eth1: DHCP off, autoconfiguration off", ""},
		{eth1("ipv4: {dhcp: true}"), "set ipv4 of eth1: DHCP on", "198.51.100.77(dhcp)"},
		{eth1("state: down"), "set down eth1; set ipv4 of eth1: DHCP off", ""},
	} {
		if got := m.steps(t, c.document); got != c.steps {
			t.Errorf("%s: steps are\n%s\nwant\n%s", c.document, got, c.steps)
		}
		var list []string
		i := m.show().Interfaces[0]
		for _, a := range append(i.IPv4.Addresses, i.IPv6.Addresses...) {
			word := a.IP
			if a.Protocol != "" {
				word += "(" + a.Protocol + ")"
			}
			list = append(list, word)
		}
		if got := strings.Join(list, " "); got != c.addresses {
			t.Errorf("%s: addresses are %q, want %q", c.document, got, c.addresses)
		}
	}
}

// TestPlanAutomatic_StaticRemovedBesideLease_RouteKept: the interface keeps an address.
func TestPlanAutomatic_StaticRemovedBesideLease_RouteKept(t *testing.T) {
	m := newModel("eth1")
	m.steps(t, eth1("ipv4: {dhcp: true, address: [{ip: 192.0.2.7, prefix-length: 24}]}"))
	m.steps(t, "routes: {config: [{destination: 203.0.113.0/24, next-hop-address: 198.51.100.1, next-hop-interface: eth1}]}")
	if got := m.steps(t, eth1("ipv4: {address: []}")); got != "remove 192.0.2.7/24 from eth1" {
		t.Errorf("steps: %s", got)
	}
	if routes := m.show().Routes.Config; len(routes) != 1 {
		t.Errorf("routes: %v", routes)
	}
}

// TestPlanAutomatic_Token_KeptUntilRemoved: "" does so, as "::" does.
func TestPlanAutomatic_Token_KeptUntilRemoved(t *testing.T) {
	const set = "set ipv6 of eth1: DHCP off, autoconfiguration on"
	for _, none := range []string{"", "::", "0::0"} {
		m := newModel("eth1")
		for _, c := range []struct{ document, steps, token string }{
			{"ipv6: {autoconf: true, token: '::0.0.15.172'}", "set up eth1; " + set, "::fac"},
			{"ipv6: {autoconf: true}", "", "::fac"},
			{"ipv6: {token: '::FAC'}", "", "::fac"},
			{"ipv6: {token: '::fad'}", set, "::fad"},
			{"ipv6: {token: '" + none + "'}", set, ""},
			{"ipv6: {token: '" + none + "'}", "", ""},
		} {
			got := m.steps(t, eth1(c.document))
			is := ""
			if token := m.show().Interfaces[0].IPv6.Token; token != nil {
				is = *token
			}
			if got != c.steps || is != c.token {
				t.Errorf("%s: steps %q, token %q; want %q, %q", c.document, got, is, c.steps, c.token)
			}
		}
	}
}

// TestPlanAutomatic_ShownState_Reapplicable: also by another host, which asks for itself.
func TestPlanAutomatic_ShownState_Reapplicable(t *testing.T) {
	m := newModel("eth1")
	m.steps(t, eth1("ipv4: {dhcp: true, auto-dns: false}, ipv6: {dhcp: true, autoconf: true, dhcp-duid: ll}"))
	text, err := m.show().Format()
	if err != nil {
		t.Fatal(err)
	}
	if got := m.steps(t, string(text)); got != "" {
		t.Errorf("steps: %s", got)
	}
	other := newModel("eth1")
	shown := parse(t, string(text))
	if addresses := shown.Interfaces[0].IPv4.Addresses; addresses != nil {
		t.Errorf("automatic addresses are desired: %v", addresses)
	}
	other.steps(t, string(text))
	if is := other.show().Interfaces[0].IPv4; !*is.DHCP || *is.AutoDNS || !*is.AutoRoutes {
		t.Errorf("the other host has %+v", is)
	}
	if document.ProtocolDHCP != other.show().Interfaces[0].IPv4.Addresses[0].Protocol {
		t.Error("the address of a lease became static")
	}
}
