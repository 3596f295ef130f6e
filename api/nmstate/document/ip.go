// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import "slices"

// IP has the addresses and settings of an interface for one family. The fields from AutoDNS on
// apply only to a family with DHCP or Autoconf.
type IP struct {
	// Enabled: a disabled family has no addresses.
	Enabled *bool `json:"enabled,omitempty"`
	// DHCP asks a DHCP server for addresses.
	DHCP *bool `json:"dhcp,omitempty"`
	// Autoconf takes addresses and routes of router advertisements (IPv6).
	Autoconf *bool `json:"autoconf,omitempty"`
	// Forwarding passes on packets that arrive on the interface for others.
	Forwarding *bool `json:"forwarding,omitempty"`
	// Addresses are static: nil keeps the present ones, an empty list removes them. A reported
	// state has automatic ones too, without link-local ones of IPv6 that the kernel made.
	Addresses []Address `json:"address,omitzero"`

	// AutoDNS uses name servers and search domains that come automatically.
	AutoDNS *bool `json:"auto-dns,omitempty"`
	// AutoGateway uses the default routes that come automatically, AutoRoutes these and all
	// other routes.
	AutoGateway *bool `json:"auto-gateway,omitempty"`
	AutoRoutes  *bool `json:"auto-routes,omitempty"`
	// AutoTable and AutoMetric are the table and the metric of routes that come automatically.
	AutoTable  *int64 `json:"auto-route-table-id,omitempty"`
	AutoMetric *int64 `json:"auto-route-metric,omitempty"`
	// ClientID names the client to a server (IPv4): "ll", "iaid+duid", or octets in hex.
	ClientID string `json:"dhcp-client-id,omitempty"`
	// DUID names the host to a server (IPv6): "ll", "llt", "en", "uuid", or octets in hex.
	DUID string `json:"dhcp-duid,omitempty"`
	// Token are the last 64 bits of addresses of Autoconf (IPv6), as an address that begins with
	// zeros. The kernel chooses them where the token is "" or NoToken.
	Token *string `json:"token,omitempty"`
	// SendHostname tells the server the name of the host, or CustomHostname instead.
	SendHostname   *bool  `json:"dhcp-send-hostname,omitempty"`
	CustomHostname string `json:"dhcp-custom-hostname,omitempty"`
}

// Address is an address with the length of its network's prefix.
type Address struct {
	IP           string `json:"ip"`
	PrefixLength int    `json:"prefix-length"`
	// ValidLifetime and PreferredLifetime are the remaining times, for example "32sec", or
	// Forever. They and Protocol are read-only, and only automatic addresses have them.
	ValidLifetime     string `json:"valid-life-time,omitempty"`
	PreferredLifetime string `json:"preferred-life-time,omitempty"`
	// Protocol is the origin of an automatic address: ProtocolDHCP or ProtocolRA. The field is
	// an extension of Alioth.
	Protocol string `json:"protocol,omitempty"`
}

// NoToken is the token of an interface without one.
const NoToken = "::"

// Forever is the lifetime of an address without an end.
const Forever = "forever"

// Protocols that bring addresses and routes automatically.
const (
	// ProtocolDHCP marks addresses and routes of leases.
	ProtocolDHCP = "dhcp"
	// ProtocolRA marks addresses and routes of router advertisements.
	ProtocolRA = "ra"
)

// Values of WaitIP. Without one it is any family with DHCP.
const (
	WaitAny  = "any"
	WaitIPv4 = "ipv4"
	WaitIPv6 = "ipv6"
	WaitBoth = "ipv4+ipv6"
)

// IsAutomatic reports whether an address came by itself. A desired one is left out.
func (a Address) IsAutomatic() bool {
	return a.Protocol != "" || a.ValidLifetime != "" && a.ValidLifetime != Forever
}

// Static returns an address without the fields that only automatic ones have.
func (a Address) Static() Address { return Address{IP: a.IP, PrefixLength: a.PrefixLength} }

// IsAutomatic reports whether a family takes addresses automatically.
func (ip *IP) IsAutomatic() bool {
	is := func(p *bool) bool { return p != nil && *p }
	return ip != nil && (ip.Enabled == nil || *ip.Enabled) && (is(ip.DHCP) || is(ip.Autoconf))
}

// Automatic returns the settings of a family that select automatic addresses and routes, and
// no others.
func (ip IP) Automatic() IP {
	ip.Enabled, ip.Forwarding, ip.Addresses = nil, nil, nil
	return ip
}

// withoutReadOnly removes from a desired state the parts that only a reported state has: automatic
// addresses, and the protocols of routes. A list that becomes empty is removed too.
func (s *State) withoutReadOnly() {
	if s.Routes != nil {
		for n := range s.Routes.Config {
			s.Routes.Config[n].Protocol = ""
		}
	}
	for _, i := range s.Interfaces {
		for _, ip := range []*IP{i.IPv4, i.IPv6} {
			if ip != nil {
				ip.Addresses = staticOf(ip.Addresses)
			}
		}
	}
}

// WithoutLifetimes returns a state without the lifetimes of addresses. It may share memory.
func (s *State) WithoutLifetimes() *State {
	steady := *s
	steady.Interfaces = slices.Clone(s.Interfaces)
	for n := range steady.Interfaces {
		i := &steady.Interfaces[n]
		i.IPv4, i.IPv6 = i.IPv4.withoutLifetimes(), i.IPv6.withoutLifetimes()
	}
	return &steady
}

func (ip *IP) withoutLifetimes() *IP {
	if ip == nil || !slices.ContainsFunc(ip.Addresses, Address.IsAutomatic) {
		return ip
	}
	steady := *ip
	steady.Addresses = slices.Clone(ip.Addresses)
	for n := range steady.Addresses {
		steady.Addresses[n].ValidLifetime, steady.Addresses[n].PreferredLifetime = "", ""
	}
	return &steady
}

// staticOf returns the static addresses of a list, nil if all of them are automatic.
func staticOf(list []Address) []Address {
	if len(list) == 0 {
		return list
	}
	var static []Address
	for _, a := range list {
		if !a.IsAutomatic() {
			static = append(static, a.Static())
		}
	}
	return static
}
