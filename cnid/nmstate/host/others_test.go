// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

func ip(prefixes ...string) *document.IP {
	list := &document.IP{Enabled: new(len(prefixes) > 0), Addresses: []document.Address{}}
	for _, text := range prefixes {
		prefix := netip.MustParsePrefix(text)
		list.Addresses = append(list.Addresses, document.Address{IP: prefix.Addr().String(), PrefixLength: prefix.Bits()})
	}
	return list
}

// end is one end of a pair whose other end is elsewhere.
func end(name string, prefixes ...string) document.Interface {
	return document.Interface{Name: name, Type: document.VethPair, Veth: &document.Veth{}, IPv4: ip(prefixes...)}
}

func TestOthers_UplinksAndPodEnds_Distinguished(t *testing.T) {
	pair := end("own", "192.0.2.7/24")
	pair.Veth.Peer = "peer"
	state := &document.State{
		Interfaces: []document.Interface{
			end("bare"), end("gateway", "10.0.0.1/32"), end("local", "169.254.1.1/16"),
			end("route"), end("address", "192.0.2.7/24"), end("known"), pair,
		},
		Routes: &document.Routes{Running: []document.Route{
			{Destination: "::/0", Interface: "route"}, {Destination: "10.0.0.2/32", Interface: "gateway"},
		}},
	}
	if names := (Others{}).showUplinks(state, nil); len(names) > 0 {
		t.Errorf("%v would be shown anyway, and have another type", names)
	}
	pods := Others{Interface: func(i document.Interface) bool { return i.Veth != nil && i.Veth.Peer == "" }}
	if diff := cmp.Diff([]string{"route", "address", "known"}, pods.showUplinks(state, []string{"known", "gone", "own"})); diff != "" {
		t.Error(diff)
	}
	for _, i := range state.Interfaces {
		want := document.VethPair
		if i.Name == "route" || i.Name == "address" || i.Name == "known" {
			want = document.Ethernet
		}
		if i.Type != want || (i.Veth == nil) != (want == document.Ethernet) {
			t.Errorf("%s is of type %s: %v", i.Name, i.Type, i.Veth)
		}
	}
}

// shadows are the addresses of others in these tests.
var shadows = Others{Address: func(a netip.Prefix) bool {
	return a.Addr() == netip.MustParseAddr("169.254.64.1") || a.Addr() == netip.MustParseAddr("fd00::1")
}}

func TestOthers_FamilyWithForeignAddressesOnly_NotEnabled(t *testing.T) {
	state := &document.State{Interfaces: []document.Interface{
		{Name: "a", IPv4: ip("169.254.64.1/32"), IPv6: ip("fd00::1/128", "fd00::2/64")}, {Name: "b"},
	}}
	taken := shadows.hide(state)
	if i := state.Interfaces[0]; *i.IPv4.Enabled || len(i.IPv4.Addresses) > 0 || !*i.IPv6.Enabled || len(i.IPv6.Addresses) != 1 {
		t.Errorf("it is shown as %+v, %+v", i.IPv4, i.IPv6)
	}
	if !taken.four["a"] || !taken.six["a"] || taken.four["b"] {
		t.Errorf("hidden is %+v", taken)
	}
}

func TestOthers_DocumentNamesForeignObjects_RefusedWithPath(t *testing.T) {
	taken := hidden{
		interfaces: map[string]bool{"pod": true}, four: map[string]bool{"lo": true}, six: map[string]bool{"lo": true}, uplinks: []string{"eth0"},
	}
	off := document.Interface{Name: "lo", IPv6: &document.IP{Enabled: new(false)}}
	for _, c := range []struct {
		i    document.Interface
		want string
	}{
		{document.Interface{Name: "pod"}, "interfaces[3].name: pod: " + ErrHidden.Error() + "; choose another name"},
		{document.Interface{Name: "pod", State: document.Absent}, ""},
		{document.Interface{Name: "pod", State: document.Ignore}, ""},
		{document.Interface{Name: "eth0", State: document.Down}, "interfaces[3].state: down: " + ErrUplink.Error()},
		{document.Interface{Name: "eth0", State: document.Up}, ""},
		{document.Interface{Name: "eth1", State: document.Absent}, ""},
		{document.Interface{Name: "lo", State: document.Down}, "interfaces[3].state: down: lo has addresses that belong to others: leave it up"},
		{off, "interfaces[3].ipv6.enabled: false: lo has addresses that belong to others: leave IPv6 enabled"},
		{document.Interface{Name: "eth1", IPv6: ip("fd00::2/64", "fd00::1/64")}, "interfaces[3].ipv6.address[1].ip: fd00::1: " + ErrAddress.Error() + "; choose another address"},
	} {
		got := ""
		if err := shadows.check("interfaces[3]", c.i, taken); err != nil {
			got = strings.TrimSpace(err.Error())
		}
		if got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.i.Name, c.i.State, got, c.want)
		}
	}
}
