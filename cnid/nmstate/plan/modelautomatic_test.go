// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

// leased and advertised hold the addresses that each interface gets from a DHCP server and from a
// router.
var (
	leased = map[string]document.Address{
		document.FamilyIPv4: {IP: "198.51.100.77", PrefixLength: 24, Protocol: document.ProtocolDHCP, ValidLifetime: "3600sec"},
		document.FamilyIPv6: {IP: "2001:db8:d::77", PrefixLength: 128, Protocol: document.ProtocolDHCP, ValidLifetime: "3600sec"},
	}
	advertised = document.Address{IP: "2001:db8:a::77", PrefixLength: 64, Protocol: document.ProtocolRA, ValidLifetime: "3600sec"}
)

// setAutomatic gives an interface its addresses at once, or takes them away.
func (m *model) setAutomatic(l *link, s plan.SetAutomatic) {
	list := &l.v4
	if s.Family == document.FamilyIPv6 {
		list = &l.v6
	}
	if l.automatic == nil {
		l.automatic = map[string]document.IP{}
	}
	if l.automatic[s.Family] = s.IP; s.IP.Token != nil && *s.IP.Token == document.NoToken {
		s.IP.Token = nil
		l.automatic[s.Family] = s.IP
	}
	for _, source := range []struct {
		on      *bool
		address document.Address
	}{{s.IP.DHCP, leased[s.Family]}, {s.IP.Autoconf, advertised}} {
		switch has := slices.Contains(*list, source.address); {
		case source.on == nil:
		case *source.on && !has:
			*list = append(*list, source.address)
		case !*source.on && has:
			m.removeAddress(l, source.address)
		}
	}
}

// withAutomatic adds the automatic settings to the shown settings of a family.
func (l *link) withAutomatic(family string, shown *document.IP) *document.IP {
	ip := l.automatic[family]
	if ip.DHCP == nil {
		ip.DHCP = new(false)
	}
	if ip.Autoconf == nil && family == document.FamilyIPv6 {
		ip.Autoconf = new(false)
	}
	ip.Enabled, ip.Forwarding, ip.Addresses = shown.Enabled, shown.Forwarding, shown.Addresses
	return &ip
}

// withoutAutomatic is a family with its static addresses alone.
func withoutAutomatic(ip *document.IP) *document.IP {
	plain := *ip
	plain.Addresses = slices.DeleteFunc(slices.Clone(ip.Addresses), document.Address.IsAutomatic)
	return &plain
}
