// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse_AutomaticValues_LeftOut(t *testing.T) {
	for text, want := range map[string][]Address{
		"[]":                                   {},
		"[{ip: 192.0.2.7, prefix-length: 24}]": {{IP: "192.0.2.7", PrefixLength: 24}},
		"[{ip: 192.0.2.7, prefix-length: 24, valid-life-time: forever}]":                               {{IP: "192.0.2.7", PrefixLength: 24}},
		"[{ip: 192.0.2.7, prefix-length: 24, valid-life-time: 32sec, preferred-life-time: 32sec}]":     nil,
		"[{ip: 192.0.2.7, prefix-length: 24, protocol: dhcp}]":                                         nil,
		"[{ip: 192.0.2.8, prefix-length: 24}, {ip: 192.0.2.7, prefix-length: 24, protocol: dhcp}]":     {{IP: "192.0.2.8", PrefixLength: 24}},
		"[{ip: 192.0.2.8, prefix-length: 24}, {ip: 192.0.2.7, prefix-length: 24, valid-life-time: x}]": {{IP: "192.0.2.8", PrefixLength: 24}},
	} {
		state, err := Parse([]byte("interfaces: [{name: eth1, ipv4: {address: " + text + "}}]"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, state.Interfaces[0].IPv4.Addresses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	state, err := Parse([]byte("routes: {config: [{destination: 0.0.0.0/0, protocol: dhcp}]}"))
	if err != nil || state.Routes.Config[0].Protocol != "" {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestWithoutLifetimes_Lease_OnlyLifetimesRemoved(t *testing.T) {
	lease := Address{IP: "192.0.2.7", PrefixLength: 24, Protocol: ProtocolDHCP, ValidLifetime: "32sec", PreferredLifetime: "32sec"}
	state := &State{Interfaces: []Interface{{Name: "eth1", IPv4: &IP{Addresses: []Address{lease}}}}}
	steady := state.WithoutLifetimes()
	want := Address{IP: "192.0.2.7", PrefixLength: 24, Protocol: ProtocolDHCP}
	if got := steady.Interfaces[0].IPv4.Addresses[0]; got != want || state.Interfaces[0].IPv4.Addresses[0] != lease {
		t.Errorf("%+v, and the state itself has %+v", got, state.Interfaces[0].IPv4.Addresses[0])
	}
}
