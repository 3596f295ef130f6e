// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	"testing"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// withLoopback is a host whose loopback interface has addresses and an MTU beside its own.
const withLoopback = `
interfaces:
- name: lo
  type: loopback
  state: up
  mtu: 12800
  description: mine
  ipv4: {enabled: true, address: [{ip: 127.0.0.1, prefix-length: 8}, {ip: 192.0.2.9, prefix-length: 32}]}
  ipv6: {enabled: true, address: [{ip: "::1", prefix-length: 128}]}`

func words(list []document.Address) (text string) {
	for _, a := range list {
		text += a.IP + " "
	}
	return text
}

func TestTargetLoopback_AddressList_OwnAddressesKept(t *testing.T) {
	for desired, want := range map[string][2]string{
		`ipv4: {address: [{ip: 192.0.2.7, prefix-length: 24}]}`:                                    {"127.0.0.1 192.0.2.7 ", "::1 "},
		`ipv4: {address: [{ip: 192.0.2.7, prefix-length: 24}, {ip: 127.0.0.1, prefix-length: 8}]}`: {"192.0.2.7 127.0.0.1 ", "::1 "},
		`ipv6: {address: [{ip: "2001:db8::7", prefix-length: 64}]}`:                                {"127.0.0.1 192.0.2.9 ", "::1 2001:db8::7 "},
		`ipv4: {address: []}, ipv6: {address: []}`:                                                 {"127.0.0.1 ", "::1 "},
		`ipv4: {enabled: false}, ipv6: {enabled: false}`:                                           {"", ""},
		`mtu: 1500`: {"127.0.0.1 192.0.2.9 ", "::1 "},
	} {
		i := over(t, withLoopback, "interfaces: [{name: lo, "+desired+"}]").Interfaces[0]
		if got := [2]string{words(i.IPv4.Addresses), words(i.IPv6.Addresses)}; got != want {
			t.Errorf("%s: %q, want %q", desired, got, want)
		}
	}
	without := `interfaces: [{name: lo, type: loopback, state: up, ipv4: {enabled: false, address: []}, ipv6: {enabled: false, address: []}}]`
	if i := over(t, without, "interfaces: [{name: lo, ipv4: {address: [{ip: 192.0.2.7, prefix-length: 24}]}}]").Interfaces[0]; words(
		i.IPv4.Addresses,
	) != "192.0.2.7 " {
		t.Errorf("an address appears that was not there: %+v", i.IPv4)
	}
}

func TestTargetLoopback_Absent_BootStateRestored(t *testing.T) {
	expect(t, over(t, withLoopback, "interfaces: [{name: lo, state: absent, mtu: 5}]"), `
- {name: lo, type: loopback, state: up, description: "", accept-all-mac-addresses: false, mtu: 65536, ipv4: {address: [{ip: 127.0.0.1, prefix-length: 8}]}, ipv6: {address: [{ip: "::1", prefix-length: 128}]}}`)
}
