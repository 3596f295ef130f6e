// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipfamily_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
)

func TestFamily_Address_KernelConstants(t *testing.T) {
	for text, want := range map[string]struct {
		family      ipfamily.Family
		name        string
		index, bits int
		number      uint8
		all         string
	}{
		"10.0.0.1":        {ipfamily.IPv4, "IPv4", 0, 32, unix.AF_INET, "0.0.0.0/0"},
		"fd00::1":         {ipfamily.IPv6, "IPv6", 1, 128, unix.AF_INET6, "::/0"},
		"::ffff:10.0.0.1": {ipfamily.IPv6, "IPv6", 1, 128, unix.AF_INET6, "::/0"},
	} {
		ip := netip.MustParseAddr(text)
		f := ipfamily.Of(ip)
		if f != want.family || f.String() != want.name || f.Index() != want.index || f.Bits() != want.bits || f.Number() != want.number {
			t.Errorf("%s: %s with index %d, %d bits and number %d", text, f, f.Index(), f.Bits(), f.Number())
		}
		if f.Bits() != ip.BitLen() || f.All().String() != want.all || f.Unspecified() != f.All().Addr() {
			t.Errorf("%s: all addresses are %s", text, f.All())
		}
		for _, other := range ipfamily.Both {
			if other.Has(ip) != (other == want.family) {
				t.Errorf("%s: %s has it: %t", text, other, other.Has(ip))
			}
		}
	}
	if unix.NFPROTO_IPV4 != unix.AF_INET || unix.NFPROTO_IPV6 != unix.AF_INET6 {
		t.Error("netfilter has other numbers")
	}
}

// Leases of DHCP clients are in files with the family.
func TestFamily_AsJSON_IsTheVersionNumber(t *testing.T) {
	text, err := json.Marshal(ipfamily.Both)
	if err != nil || string(text) != "[4,6]" {
		t.Errorf("%s, %v", text, err)
	}
}
