// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"net/netip"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// Address checks an address that is there.
func (p *Problems) Address(path, text string) {
	if _, err := compare.ParseAddress(text); text != "" && err != nil {
		p.Add(path, "%s: want an IP address", text)
	}
}

// checkIP checks the section of one family.
func (p *Problems) checkIP(path string, ip *document.IP, family ipfamily.Family) {
	if ip == nil {
		return
	}
	if compare.IsFalse(ip.Enabled) && len(ip.Addresses) > 0 {
		p.Add(path+".address", "the family is not enabled: remove the addresses, or set enabled to true")
	}
	p.checkAutomatic(path, ip, family)
	seen := map[string]bool{}
	for n, a := range ip.Addresses {
		at := fmt.Sprintf("%s.address[%d]", path, n)
		p.checkAddress(at, a, family)
		if seen[compare.CanonicalAddress(a.IP)] {
			p.Add(at+".ip", "%s: it is there twice", a.IP)
		}
		seen[compare.CanonicalAddress(a.IP)] = true
	}
}

func (p *Problems) checkAddress(path string, a document.Address, family ipfamily.Family) {
	ip, err := compare.ParseAddress(a.IP)
	if err != nil {
		p.Add(path+".ip", "%q: want an IP address", a.IP)
		return
	}
	if !family.Has(ip) {
		p.Add(path+".ip", "%s: want an address of %s", a.IP, family)
		return
	}
	if a.PrefixLength < 0 || a.PrefixLength > ip.BitLen() {
		p.Add(path+".prefix-length", "%d: want 0 to %d", a.PrefixLength, ip.BitLen())
	}
}

// Prefix reads a prefix.
func (p *Problems) Prefix(path, text string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		p.Add(path, "%s: want a prefix, such as 198.51.100.0/24", text)
		return prefix, false
	}
	return prefix, true
}
