// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"net/netip"
	"reflect"
	"strconv"
)

// standard stands for the default metric or priority in documents of nmstate.
const standard = -1

// settle sets the name of the mode and of the option that has two names. nmstate also accepts a
// number and the name of the mode's protocol.
func (b *LinkAggregation) settle() {
	const name, second = "num_grat_arp", "num_unsol_na"
	value, ok := b.Options[second]
	if other, both := b.Options[name]; ok && (!both || other == value) {
		b.Options[name] = value
		delete(b.Options, second)
	}
	if n, err := strconv.Atoi(b.Mode); err == nil && n >= 0 && n < len(BondModes) {
		b.Mode = BondModes[n]
	}
	if b.Mode == "lacp" {
		b.Mode = "802.3ad"
	}
}

// settle writes prefixes with their lengths, and leaves out a default metric. In a route to add
// it leaves out values that mean the same as a missing field.
func (r *Route) settle() {
	r.Destination = prefixOf(r.Destination)
	r.Metric = unlessStandard(r.Metric)
	if r.State == Absent {
		return
	}
	r.LockMTU, r.QuickACK = ifTrue(r.LockMTU), ifTrue(r.QuickACK)
	if ip, err := netip.ParseAddr(r.Address); err == nil && ip.IsUnspecified() {
		r.Address = ""
	}
}

// mayBeEmpty accepts an empty next hop in a route to add: the next hop is on the link.
func (r *Route) mayBeEmpty(field string) bool {
	return field == "next-hop-address" && r.State != Absent
}

// settle leaves out the table 0, which keeps the present table.
func (v *VRF) settle() {
	if v.Table != nil && *v.Table == 0 {
		v.Table = nil
	}
}

// settle writes addresses of servers in their one form.
func (r *Resolver) settle() {
	for n, server := range r.Server {
		if ip, err := netip.ParseAddr(server); err == nil {
			r.Server[n] = ip.String()
		}
	}
}

// settle replaces a number, which nmstate also takes, by its name.
func (o *BridgeOptions) settle() {
	if n, err := strconv.Atoi(o.MulticastRouter); err == nil && n >= 0 && n < len(MulticastRouters) {
		o.MulticastRouter = MulticastRouters[n]
	}
}

// settle writes prefixes with their lengths, and leaves out a default priority.
func (r *RouteRule) settle() {
	r.From, r.To = prefixOf(r.From), prefixOf(r.To)
	r.Priority = unlessStandard(r.Priority)
}

// mayBeEmpty accepts an empty prefix, which means all addresses. An absent rule with one matches
// the rules without a prefix.
func (r *RouteRule) mayBeEmpty(field string) bool {
	prefix := map[string]*string{"ip-from": &r.From, "ip-to": &r.To}[field]
	if prefix != nil && r.State == Absent {
		*prefix = AnyPrefix
	}
	return prefix != nil
}

// prefixOf returns a prefix without bits beyond its length. An address becomes a prefix with all
// bits. Any other text is returned unchanged.
func prefixOf(text string) string {
	if prefix, err := netip.ParsePrefix(text); err == nil && !prefix.Addr().Is4In6() {
		return prefix.Masked().String()
	}
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" && !ip.Is4In6() {
		return netip.PrefixFrom(ip, ip.BitLen()).String()
	}
	return text
}

// ifTrue drops a false value: it means the same as a missing field.
func ifTrue(b *bool) *bool {
	if b != nil && !*b {
		return nil
	}
	return b
}

func unlessStandard(n *int64) *int64 {
	if n != nil && *n == standard {
		return nil
	}
	return n
}

// idle reports whether a field that the engine lacks has a value that demands no change. nmstate
// shows such values, so documents that were copied from its output have them.
func idle(field string, value any) bool {
	values := map[string]any{
		"identifier":            "name",
		"lldp":                  map[string]any{"enabled": false},
		"mptcp":                 map[string]any{"address-flags": []any{}},
		"allow-extra-address":   false,
		"registration-protocol": "none",
		"reorder-headers":       true,
		"loose-binding":         false,
	}
	want, ok := values[field]
	return ok && reflect.DeepEqual(value, want)
}
