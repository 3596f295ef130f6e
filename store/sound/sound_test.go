// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package sound_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/alioth-net/alioth/store/sound"
)

func TestIsHost_EachAddress_OnlyUnicast(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.1": true, "fd00::1": true, "fe80::1": true, "0.0.0.0": false, "::": false, "127.0.0.1": false, "::1": false, "224.0.0.1": false,
		"ff02::1": false, "255.255.255.255": false, "::ffff:10.0.0.1": false, "fe80::1%eth0": false,
	} {
		if got := sound.IsHost(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is an address of one host: %t, want %t", text, got, want)
		}
	}
	if sound.IsHost(netip.Addr{}) {
		t.Error("no address is one of a host")
	}
}

// TestApart_Range_IPv4MappedRemoved compares the ranges with the whole one, at addresses around the
// mapped range.
func TestApart_Range_IPv4MappedRemoved(t *testing.T) {
	inside := netip.MustParsePrefix("::ffff:0:0/96")
	for _, text := range []string{"::/0", "::/64", "::/80", "::ffff:0:0/95", "::ffff:0:0/96", "fd00::/8", "10.0.0.0/8"} {
		whole := netip.MustParsePrefix(text)
		parts := sound.Apart(whole)
		for _, at := range []string{"::", "::1", "::fffe:ffff:ffff", "::ffff:0:0", "::ffff:a00:1", "::1:0:0:0", "fd00::1", "2001:db8::1", "10.0.0.1"} {
			addr, count := netip.MustParseAddr(at), 0
			for _, part := range parts {
				if part.Contains(addr) {
					count++
				}
			}
			want := 0
			if whole.Contains(addr) && !inside.Contains(addr) {
				want = 1
			}
			if count != want {
				t.Errorf("%s without IPv4 is %v: %d of them contain %s, want %d", whole, parts, count, addr, want)
			}
		}
	}
}

func TestTextsAndNames_EachText_OnlyAllowedAccepted(t *testing.T) {
	for text, want := range map[string]struct{ text, name bool }{
		"": {true, true}, "node-1.example": {true, true}, "Upper": {true, false}, "a/b": {true, false}, "ä": {true, false}, "a\nb": {}, "\x1b[31m": {}, "\xff": {},
		"\u202e": {}, strings.Repeat("a", 253): {true, true}, strings.Repeat("a", 256): {true, false}, strings.Repeat("a", 257): {},
	} {
		if got := sound.Texts("ok", text) == nil; got != want.text {
			t.Errorf("%.20q is a text of a row: %t, want %t", text, got, want.text)
		}
		if got := sound.Names("ok", text) == nil; got != want.name {
			t.Errorf("%.20q is a name: %t, want %t", text, got, want.name)
		}
	}
}
