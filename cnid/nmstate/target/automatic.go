// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// settled makes the automatic settings consistent. want are the document's settings of the
// family, and have the present ones.
func settled(ip *document.IP, want, have *document.IP, family ipfamily.Family) {
	if !speaksOfAutomatic(want) || want.Autoconf == nil && (have == nil || compare.IsFalse(have.Enabled)) {
		// The kernel decides, and may do so anew when the family is enabled.
		ip.Autoconf = nil
	}
	if !ip.IsAutomatic() {
		stopAutomatic(ip, have)
		becomeStatic(ip, want, have)
		return
	}
	if !speaksOfAutomatic(want) {
		return // The kernel's own settings stay as they are.
	}
	for _, setting := range []**bool{&ip.AutoDNS, &ip.AutoGateway, &ip.AutoRoutes} {
		if *setting == nil {
			*setting = new(true)
		}
	}
	if compare.IsTrue(ip.DHCP) && ip.SendHostname == nil {
		ip.SendHostname = new(true)
	}
	if !compare.IsTrue(ip.DHCP) || compare.IsFalse(ip.SendHostname) {
		ip.CustomHostname = ""
	}
	if family == ipfamily.IPv6 && ip.Autoconf == nil {
		ip.Autoconf = new(false)
	}
	ip.Token = settledToken(ip)
}

// settledToken returns the token of a family in the form for comparisons. Only autoconfiguration
// has a token.
func settledToken(ip *document.IP) *string {
	switch {
	case ip.Token == nil || !compare.IsTrue(ip.Autoconf):
		return nil
	case *ip.Token == "":
		return new(document.NoToken)
	default:
		return new(compare.CanonicalAddress(*ip.Token))
	}
}

// stopAutomatic leaves out all that is of an automatic family alone. With a family ends its
// DHCP. The kernel configures no family by itself that is not enabled.
func stopAutomatic(ip, have *document.IP) {
	stopped := document.IP{
		Enabled:    ip.Enabled,
		Forwarding: ip.Forwarding,
		Addresses:  ip.Addresses,
		DHCP:       ip.DHCP,
		Autoconf:   ip.Autoconf,
	}
	if have != nil && compare.IsTrue(have.DHCP) {
		stopped.DHCP, stopped.Autoconf = off(ip.DHCP), off(ip.Autoconf)
	}
	*ip = stopped
}

// off is false, where there is a value.
func off(p *bool) *bool {
	if p == nil {
		return nil
	}
	return new(false)
}

// becomeStatic keeps the addresses of a lease when DHCP is turned off and the document has
// none instead, as nmstate does.
func becomeStatic(ip *document.IP, want, have *document.IP) {
	if have == nil || !compare.IsTrue(have.DHCP) || compare.IsFalse(ip.Enabled) || want == nil || want.Addresses != nil {
		return
	}
	for _, a := range have.Addresses {
		if a.Protocol == document.ProtocolDHCP {
			ip.Addresses = append(ip.Addresses, a.Static())
		}
	}
}

// speaksOfAutomatic reports whether a document has a setting about what comes automatically.
func speaksOfAutomatic(want *document.IP) bool {
	if want == nil {
		return false
	}
	settings := want.Automatic()
	return settings.DHCP != nil || settings.Autoconf != nil || settings.AutoDNS != nil ||
		settings.AutoGateway != nil || settings.AutoRoutes != nil ||
		settings.AutoTable != nil || settings.AutoMetric != nil ||
		settings.ClientID != "" || settings.DUID != "" || settings.Token != nil ||
		settings.SendHostname != nil || settings.CustomHostname != ""
}

// checkPortAutomatic refuses DHCP on a port.
func (r *resolution) checkPortAutomatic(path string, i document.Interface, want *document.IP) {
	if want != nil && compare.IsTrue(want.DHCP) {
		r.Add(path+".dhcp", "true: %s is a port of %s: set it for %s", i.Name, controllerOf(i), controllerOf(i))
	}
}

// Staying returns the automatic addresses of a family that stay: what they came by stays on.
func Staying(is, shall *document.IP) (list []document.Address) {
	for _, a := range addressesOf(is) {
		on := true
		switch {
		case shall == nil:
		case a.Protocol == document.ProtocolDHCP:
			on = !compare.IsFalse(shall.DHCP)
		case a.Protocol == document.ProtocolRA:
			on = !compare.IsFalse(shall.Autoconf)
		}
		if on && a.IsAutomatic() {
			list = append(list, a)
		}
	}
	return list
}
