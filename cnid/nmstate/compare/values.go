// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// ParseAddress reads an address without zone.
func ParseAddress(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err == nil && (ip.Zone() != "" || ip.Is4In6()) {
		err = fmt.Errorf("%s has a zone or is an IPv4 address in the form of IPv6", text)
	}
	return ip, err
}

// CanonicalAddress returns an address in the form for comparisons.
func CanonicalAddress(text string) string {
	if ip, err := ParseAddress(text); err == nil {
		return ip.String()
	}
	return text
}

// CanonicalMAC returns a MAC address in upper case with colons.
func CanonicalMAC(text string) string {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return text
	}
	return strings.ToUpper(mac.String())
}

// IsTrue reports whether a value is there and true.
func IsTrue(p *bool) bool { return p != nil && *p }

// IsFalse reports whether a value is there and false.
func IsFalse(p *bool) bool { return p != nil && !*p }
