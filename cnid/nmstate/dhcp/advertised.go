// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Advertised has what routers of a link tell about the resolver (RFC 8106), checked.
type Advertised struct {
	// Index is the kernel's number of the interface.
	Index int `json:"index"`
	// DNS has addresses of name servers, Search the search domains. A link has as many of both as
	// a lease.
	DNS    []Option `json:"dns,omitempty"`
	Search []Option `json:"search,omitempty"`
}

// Option is a text that counts until a time, the zero time for ever. Routers withdraw a text by a
// time that is over.
type Option struct {
	Text  string    `json:"text"`
	Until time.Time `json:"until,omitzero"`
}

func (t Option) isOver(now time.Time) bool { return !t.Until.IsZero() && !now.Before(t.Until) }

// Options of advertisements, and the length of what each begins with: type, length in units of
// 8 octets, two reserved octets, and the lifetime in seconds.
const (
	optionServers, optionDomains = 25, 31
	optionHeader, optionUnit     = 8, 8
)

// maxLifetime bounds how long an advertised text counts. Routers repeat it at least each half hour
// (RFC 4861, section 6.2.1), whatever its lifetime. What a host forges ends by itself.
const maxLifetime = 24 * time.Hour

// Note notes the options of an advertisement. It reports whether the resolver changes by them.
func (a *Advertised) Note(options []byte, now time.Time) (changed bool) {
	before := a.Live(now)
	for len(options) >= optionHeader {
		size := int(options[1]) * optionUnit
		if size == 0 || size > len(options) {
			break
		}
		a.option(options[:size], now)
		options = options[size:]
	}
	return !before.sameTexts(a.Live(now))
}

func (a *Advertised) option(option []byte, now time.Time) {
	lifetime := time.Duration(binary.BigEndian.Uint32(option[4:])) * time.Second
	until := now.Add(min(lifetime, maxLifetime))
	rest := option[optionHeader:]
	switch option[0] {
	case optionServers:
		const size = 16
		for ; len(rest) >= size; rest = rest[size:] {
			if server := netip.AddrFrom16([size]byte(rest)); IsServer6(server) {
				a.DNS = noted(a.DNS, MaxDNS, Option{server.String(), until}, now)
			}
		}
	case optionDomains:
		for _, domain := range Domains(domainsIn(rest)) {
			a.Search = noted(a.Search, MaxSearch, Option{domain, until}, now)
		}
	}
}

// noted returns a list with a text. A full list loses its expired entries.
func noted(list []Option, most int, t Option, now time.Time) []Option {
	if at := slices.IndexFunc(list, func(o Option) bool { return o.Text == t.Text }); at >= 0 {
		list[at] = t
		return list
	}
	if len(list) >= most {
		list = slices.DeleteFunc(list, func(o Option) bool { return o.isOver(now) })
	}
	if len(list) >= most {
		return list
	}
	return append(list, t)
}

// domainsIn returns the names of a list of labels. The rest after the last name is zeros.
func domainsIn(data []byte) (names []string) {
	var labels []string
	for len(data) > 0 {
		size := int(data[0])
		if size > maxLabel || size >= len(data) && size > 0 {
			return names
		}
		if size > 0 {
			labels = append(labels, string(data[1:1+size]))
		} else if labels != nil {
			names, labels = append(names, strings.Join(labels, ".")), nil
		}
		data = data[1+size:]
	}
	return names
}

// Live returns the entries that have not expired. The result shares no memory with a.
func (a Advertised) Live(now time.Time) Advertised {
	isOver := func(t Option) bool { return t.isOver(now) }
	return Advertised{
		a.Index,
		slices.DeleteFunc(slices.Clone(a.DNS), isOver),
		slices.DeleteFunc(slices.Clone(a.Search), isOver),
	}
}

// IsEmpty reports whether routers advertise nothing.
func (a Advertised) IsEmpty() bool { return len(a.DNS)+len(a.Search) == 0 }

// After returns the present entries, and the former entries of the same interface about which no
// present entry tells anything.
func (a Advertised) After(before Advertised, now time.Time) Advertised {
	if a.Index != before.Index {
		return a
	}
	return Advertised{a.Index, after(a.DNS, before.DNS, MaxDNS, now), after(a.Search, before.Search, MaxSearch, now)}
}

func after(list, before []Option, most int, now time.Time) []Option {
	sum := slices.Clone(list)
	for _, t := range before {
		if !slices.ContainsFunc(list, func(o Option) bool { return o.Text == t.Text }) {
			sum = noted(sum, most, t, now)
		}
	}
	return sum
}

func (a Advertised) sameTexts(b Advertised) bool {
	same := func(x, y Option) bool { return x.Text == y.Text }
	return slices.EqualFunc(a.DNS, b.DNS, same) && slices.EqualFunc(a.Search, b.Search, same)
}

// IsServer6 reports whether a name server of IPv6 can be asked; some are link-local.
func IsServer6(a netip.Addr) bool {
	return a.Is6() && !a.Is4In6() && a.Zone() == "" && (a.IsGlobalUnicast() || a.IsLinkLocalUnicast())
}
