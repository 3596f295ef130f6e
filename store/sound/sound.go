// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sound has the rules for the values of rows: which addresses, ranges, numbers and
// ports a node can program. The checks of rows use them, so no row in a store has another
// value. The package is pure.
package sound

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/api/quote"
)

// MaxVNI is the largest VXLAN network identifier, RFC 7348 section 5.
const MaxVNI = 1<<24 - 1

// maxAffinity is the longest that the Kubernetes API allows.
const maxAffinity = 24 * time.Hour

// mapped has the IPv4-mapped addresses, the form of IPv4 addresses in the maps of nodes.
var mapped = netip.MustParsePrefix("::ffff:0:0/96")

var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("::/8"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// Reserved returns the ranges that have a meaning of their own on every node (RFC 6890).
func Reserved() []netip.Prefix { return slices.Clone(reserved) }

// LinkLocal returns the link-local range of each family.
func LinkLocal() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10")}
}

// IsHost reports whether an address can belong to one host. It refuses the addresses of all
// hosts, of many hosts, and of the node that uses the address.
func IsHost(ip netip.Addr) bool {
	return ip.IsValid() && !ip.Is4In6() && ip.Zone() == "" && !ip.IsUnspecified() && !ip.IsLoopback() &&
		!ip.IsMulticast() &&
		ip != broadcast
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Hosts returns an error for the first address that can't belong to one host.
func Hosts(what string, ips ...netip.Addr) error {
	for _, ip := range ips {
		if !IsHost(ip) {
			return fmt.Errorf("%s %s is not an address of one host", what, spelled(ip))
		}
	}
	return nil
}

func spelled(ip netip.Addr) string {
	if !ip.IsValid() {
		return "(none)"
	}
	return quote.Name(ip.String())
}

// OnePerFamily returns an error if two addresses have one family.
func OnePerFamily(what string, ips []netip.Addr) error {
	var have [2]bool
	for _, ip := range ips {
		family := 0
		if ip.Is6() {
			family = 1
		}
		if have[family] {
			return fmt.Errorf("%s: %s is the second of its family", what, spelled(ip))
		}
		have[family] = true
	}
	return nil
}

// Ranges returns an error for the first invalid range: the range has host bits or, as IPv6,
// addresses that stand for IPv4.
func Ranges(what string, ranges ...netip.Prefix) error {
	for _, p := range ranges {
		if !p.IsValid() || p.Addr().Is4In6() || p != p.Masked() {
			return fmt.Errorf("%s %s is not a range without host bits", what, quote.Text(p.String()))
		}
	}
	return nil
}

// OwnRanges returns an error for the first range that a VPC or subnet can't have.
func OwnRanges(what string, ranges ...netip.Prefix) error {
	if err := Ranges(what, ranges...); err != nil {
		return err
	}
	for i, p := range ranges {
		for _, r := range reserved {
			if p.Overlaps(r) {
				return fmt.Errorf("%s %s overlaps the reserved range %s", what, p, r)
			}
		}
		for _, other := range ranges[:i] {
			if p.Overlaps(other) {
				return fmt.Errorf("%s %s overlaps %s of the same object", what, p, other)
			}
		}
	}
	return nil
}

// LastOf returns the highest address of a range. In IPv4 it is the broadcast address, which no
// host has.
func LastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// Apart returns the ranges that a range has without the IPv4-mapped addresses: the range
// itself, if it contains none.
func Apart(p netip.Prefix) []netip.Prefix {
	if !p.Addr().Is6() || !p.Overlaps(mapped) {
		return []netip.Prefix{p}
	}
	var list []netip.Prefix
	for bits := p.Bits(); bits < mapped.Bits(); bits++ {
		sibling := mapped.Addr().As16()
		sibling[bits/8] ^= 0x80 >> (bits % 8)
		list = append(list, netip.PrefixFrom(netip.AddrFrom16(sibling), bits+1).Masked())
	}
	return list
}

// VNI returns an error for a number outside of the range of VNIs. 0 stands for no VNI yet.
func VNI(what string, number uint32) error {
	if number > MaxVNI {
		return fmt.Errorf("%s %d is above %d", what, number, MaxVNI)
	}
	return nil
}

// MAC returns an error for a text that is not an Ethernet address of one station. "" stands for
// no address.
func MAC(text string) error {
	if text == "" {
		return nil
	}
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 || [6]byte(mac) == [6]byte{} {
		return fmt.Errorf("MAC %s is not an address of one station", quote.Text(text))
	}
	return nil
}

// Affinity returns an error for a duration that is not whole seconds up to a day.
func Affinity(d time.Duration) error {
	if d < 0 || d%time.Second != 0 || d > maxAffinity {
		return fmt.Errorf("session affinity of %s is not whole seconds up to %s", d, maxAffinity)
	}
	return nil
}

// Names returns an error for the first text that can't be the name of an object. "" stands for no
// name.
func Names(names ...string) error {
	for _, name := range names {
		if !isName(name) {
			return fmt.Errorf("%s can't be the name of an object", quote.Text(name))
		}
	}
	return nil
}

// maxName is the longest name of an object, in bytes (RFC 1123, with the dots).
const maxName = 253

// isName looks at the characters alone: the API server has checked the names of objects.
func isName(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return len(name) <= maxName
}

// Texts returns an error for the first text that is too long for a row, or that has characters
// that can't be printed. So messages may repeat the texts of rows.
func Texts(texts ...string) error {
	for _, text := range texts {
		if !quote.IsShort(text) {
			return fmt.Errorf(
				"a value of %d bytes is longer than %d bytes or can't be printed: %s",
				len(text),
				quote.MaxQuoted,
				quote.Text(text),
			)
		}
	}
	return nil
}
