// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	rows "github.com/alioth-net/alioth/store/rows/policy"
)

// FuzzPorts compares the rows of ranges of ports with the ranges, at each port beside an end.
func FuzzPorts(f *testing.F) {
	f.Add([]byte{0, 80, 0, 80, 1, 1, 0, 90, 0, 80, 2, 2})
	f.Add([]byte{0, 1, 0xff, 0xfe, 0, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		var spans []span
		probes := []uint16{0, 1<<portBits - 1}
		for ; len(in) >= 6 && len(spans) < 50; in = in[6:] {
			s := span{
				Rule: Rule{Rank: uint32(len(spans) + 1), Action: rows.Action(in[4]%3 + 1)}, tier: rows.Tier(in[5]) % rows.Tier(Tiers),
				first: binary.BigEndian.Uint16(in), last: binary.BigEndian.Uint16(in[2:]),
			}
			if s.first > s.last {
				s.first, s.last = s.last, s.first
			}
			spans = append(spans, s)
			probes = append(probes, s.first-1, s.first, s.first+1, s.last-1, s.last, s.last+1)
		}
		ports := compilePorts(TCP, spans)
		for _, port := range probes {
			if got, want := found(ports, port), match(spans, port); got != want {
				t.Fatalf("port %d has %v, want %v, of %+v in rows %+v", port, got, want, spans, ports)
			}
		}
		if most := 30 * len(spans); len(ports) > most {
			t.Errorf("%d rows for %d ranges, want at most %d", len(ports), len(spans), most)
		}
	})
}

func found(ports []Ports, port uint16) (rules Rules) {
	best := -1
	for _, one := range ports {
		if int(one.Bits) > best && uint32(one.Port)>>(portBits-one.Bits) == uint32(port)>>(portBits-one.Bits) {
			best, rules = int(one.Bits), one.Rules
		}
	}
	return rules
}

func match(spans []span, port uint16) (rules Rules) {
	for _, s := range spans {
		if s.first <= port && port <= s.last && rules[s.tier].Rank == 0 {
			rules[s.tier] = s.Rule
		}
	}
	return rules
}

// FuzzNets compares the rows of ranges of addresses with the ranges, at the ends of each.
func FuzzNets(f *testing.F) {
	f.Add([]byte{4, 10, 0, 0, 0, 8, 1, 10, 0, 0, 0, 30, 4, 10, 0, 0, 0, 31, 0})
	f.Add([]byte{6, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 96, 4, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		n := netParts{ofRule: map[*rule][]int{}}
		var all []rows.Block
		for len(in) >= 7 && len(all) < 30 {
			b := rows.Block{CIDR: prefixOf(in, in[0])}
			holes := in[6] % 4
			for in = in[7:]; holes > 0 && len(in) >= 6; holes, in = holes-1, in[6:] {
				b.Except = append(b.Except, prefixOf(in, in[0]))
			}
			all = append(all, b)
			n.add(&rule{Rule: Rule{uint32(len(all)), rows.Accept}, all: true}, &b)
		}
		l := newLists()
		nets := n.compile(l)
		for _, ip := range ends(all) {
			var parts []part
			for i, b := range all {
				if inBlock(&b, ip) {
					parts = append(parts, n.parts[i])
				}
			}
			if got, want := netOf(nets, ip), l.of(parts); got != want {
				t.Fatalf("%v has %v, want %v, of %v in %v", ip, got, want, all, nets)
			}
		}
	})
}

// prefixOf makes a prefix of 6 bytes.
func prefixOf(in []byte, family byte) netip.Prefix {
	ip, bits := netip.AddrFrom4([4]byte(in[1:5])), int(in[5])%33
	if family%2 == 0 && family%4 != 0 {
		raw := ip.As16()
		if in[1]%2 == 0 {
			copy(raw[:], in[1:5])
		}
		ip, bits = netip.AddrFrom16(raw), int(in[5])%129
		if ip.Is4In6() && bits >= 96 {
			bits = 95 // conversions refuse longer ones
		}
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// ends returns addresses in and beside all ranges.
func ends(all []rows.Block) (ips []netip.Addr) {
	ips = []netip.Addr{netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("255.255.255.255"), netip.IPv6Unspecified(), netip.MustParseAddr("ffff::")}
	for _, b := range all {
		for _, prefix := range append([]netip.Prefix{b.CIDR}, b.Except...) {
			last := prefix.Addr().AsSlice()
			for bit := prefix.Bits(); bit < len(last)*8; bit++ {
				last[bit/8] |= 0x80 >> (bit % 8)
			}
			end, _ := netip.AddrFromSlice(last)
			ips = append(ips, prefix.Addr(), prefix.Addr().Prev(), end, end.Next())
		}
	}
	return slices.DeleteFunc(ips, func(ip netip.Addr) bool { return !ip.IsValid() || ip.Is4In6() })
}

func inBlock(b *rows.Block, ip netip.Addr) bool {
	return b.CIDR.Contains(ip) && !slices.ContainsFunc(b.Except, func(p netip.Prefix) bool { return p.Contains(ip) })
}

func netOf(nets []Net, ip netip.Addr) (list *List) {
	best := -1
	for _, one := range nets {
		if one.Prefix.Bits() > best && one.Prefix.Contains(netip.AddrFrom16(ip.As16())) {
			best, list = one.Prefix.Bits(), one.List
		}
	}
	return list
}

// TestPorts_Range_LeastRows has the number of rows for ranges.
func TestPorts_Range_LeastRows(t *testing.T) {
	accept, deny := Rule{2, rows.Accept}, Rule{1, rows.Deny}
	for name, c := range map[string]struct {
		spans []span
		rows  int
	}{
		"no range":                    {nil, 0},
		"one port":                    {[]span{{accept, rows.Namespaced, 80, 80}}, 1},
		"all ports":                   {[]span{{accept, rows.Namespaced, 0, 65535}}, 1},
		"the first and the last port": {[]span{{accept, rows.Admin, 0, 0}, {accept, rows.Admin, 65535, 65535}}, 2},
		"the widest of 30 prefixes":   {[]span{{accept, rows.Namespaced, 1, 65534}}, 3},
		"all ports but one":           {[]span{{deny, rows.Admin, 22, 22}, {accept, rows.Admin, 0, 65535}}, 2},
		"all ports from 1024 on":      {[]span{{accept, rows.Namespaced, 1024, 65535}}, 2},
		"two ranges side by side":     {[]span{{accept, rows.Namespaced, 80, 81}, {accept, rows.Namespaced, 82, 83}}, 1},
		"a range in another":          {[]span{{accept, rows.Namespaced, 0, 1023}, {accept, rows.Namespaced, 80, 80}}, 1},
		"the same ports of two tiers": {[]span{{deny, rows.Admin, 80, 80}, {accept, rows.Baseline, 80, 80}}, 1},
	} {
		if got := len(compilePorts(TCP, c.spans)); got != c.rows {
			t.Errorf("%s: %d rows, want %d", name, got, c.rows)
		}
	}
}
