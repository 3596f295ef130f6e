// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"net/netip"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// checkAutomatic checks the settings of a family that say what comes automatically.
func (p *problems) checkAutomatic(path string, ip *document.IP, family ipfamily.Family) {
	p.uint32(path+".auto-route-table-id", ip.AutoTable)
	p.uint32(path+".auto-route-metric", ip.AutoMetric)
	switch {
	case family == ipfamily.IPv6:
	case isTrue(ip.Autoconf):
		p.add(path+".autoconf", "true: routers advertise no addresses of IPv4: set dhcp to true")
	case ip.DUID != "":
		p.add(path+".dhcp-duid", "%s: it is a field of ipv6: write it there, or use dhcp-client-id", ip.DUID)
	}
	if family == ipfamily.IPv6 && ip.ClientID != "" {
		p.add(path+".dhcp-client-id", "%s: it is a field of ipv4: write it there, or use dhcp-duid", ip.ClientID)
	}
	if table := ip.AutoTable; family == ipfamily.IPv6 && table != nil && *table != 0 && *table != document.MainTable {
		p.add(path+".auto-route-table-id", "%d: the kernel has routes of router advertisements in the main table alone: remove it, or put the interface into a VRF", *table)
	}
	p.checkToken(path, ip, family)
	p.check(path+".dhcp-client-id", ip.ClientID, dhcp.CheckClientID)
	p.check(path+".dhcp-duid", ip.DUID, dhcp.CheckDUID)
	p.check(path+".dhcp-custom-hostname", ip.CustomHostname, dhcp.CheckHostname)
}

// checkToken checks the last bits of addresses of autoconfiguration.
func (p *problems) checkToken(path string, ip *document.IP, family ipfamily.Family) {
	if ip.Token == nil || *ip.Token == "" {
		return
	}
	token, err := parseAddress(*ip.Token)
	switch {
	case family == ipfamily.IPv4:
		p.add(path+".token", "%s: it is a field of ipv6: write it there", *ip.Token)
	case err != nil || !startsWithZeros(token):
		p.add(path+".token", "%s: want an address of IPv6 whose first 64 bits are zero, such as ::1", *ip.Token)
	case isFalse(ip.Autoconf) && !token.IsUnspecified():
		p.add(path+".token", "%s: it is for addresses of autoconfiguration: set autoconf to true, or remove the token", *ip.Token)
	}
}

func startsWithZeros(token netip.Addr) bool {
	const half = 64
	first, err := token.Prefix(half)
	return err == nil && token.Is6() && first.Addr().IsUnspecified()
}

// check checks a text that is there.
func (p *problems) check(path, text string, with func(string) error) {
	if text == "" {
		return
	}
	if err := with(text); err != nil {
		p.add(path, "%s: %v", text, err)
	}
}

// checkWait checks what a change of an interface waits for.
func (p *problems) checkWait(path string, i document.Interface) {
	p.word(path, i.WaitIP, document.WaitAny, document.WaitIPv4, document.WaitIPv6, document.WaitBoth)
	off := func(ip *document.IP) bool { return ip != nil && isFalse(ip.Enabled) }
	if off(i.IPv4) && (i.WaitIP == document.WaitIPv4 || i.WaitIP == document.WaitBoth) {
		p.add(path, "%s: IPv4 is not enabled: enable it, or wait for ipv6", i.WaitIP)
	}
	if off(i.IPv6) && (i.WaitIP == document.WaitIPv6 || i.WaitIP == document.WaitBoth) {
		p.add(path, "%s: IPv6 is not enabled: enable it, or wait for ipv4", i.WaitIP)
	}
}

// settled makes the settings consistent that say what comes automatically. want is what the
// document has of the family, have what is.
func settled(ip *document.IP, want, have *document.IP, family ipfamily.Family) {
	if !speaksOfAutomatic(want) || want.Autoconf == nil && (have == nil || isFalse(have.Enabled)) {
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
	if isTrue(ip.DHCP) && ip.SendHostname == nil {
		ip.SendHostname = new(true)
	}
	if !isTrue(ip.DHCP) || isFalse(ip.SendHostname) {
		ip.CustomHostname = ""
	}
	if family == ipfamily.IPv6 && ip.Autoconf == nil {
		ip.Autoconf = new(false)
	}
	ip.Token = settledToken(ip)
}

// settledToken is the token of a family in the one form in which tokens are compared. Only
// autoconfiguration has one.
func settledToken(ip *document.IP) *string {
	switch {
	case ip.Token == nil || !isTrue(ip.Autoconf):
		return nil
	case *ip.Token == "":
		return new(document.NoToken)
	default:
		return new(canonical(*ip.Token))
	}
}

// stopAutomatic leaves out all that is of an automatic family alone. With a family ends its
// DHCP. The kernel configures no family by itself that is not enabled.
func stopAutomatic(ip, have *document.IP) {
	stopped := document.IP{Enabled: ip.Enabled, Forwarding: ip.Forwarding, Addresses: ip.Addresses, DHCP: ip.DHCP, Autoconf: ip.Autoconf}
	if have != nil && isTrue(have.DHCP) {
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
	if have == nil || !isTrue(have.DHCP) || isFalse(ip.Enabled) || want == nil || want.Addresses != nil {
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
	said := want.Automatic()
	return said.DHCP != nil || said.Autoconf != nil || said.AutoDNS != nil || said.AutoGateway != nil || said.AutoRoutes != nil ||
		said.AutoTable != nil || said.AutoMetric != nil || said.ClientID != "" || said.DUID != "" || said.Token != nil || said.SendHostname != nil || said.CustomHostname != ""
}

// checkPortAutomatic refuses DHCP on a port.
func (r *resolution) checkPortAutomatic(path string, i document.Interface, want *document.IP) {
	if want != nil && isTrue(want.DHCP) {
		r.add(path+".dhcp", "true: %s is a port of %s: set it for %s", i.Name, controllerOf(i), controllerOf(i))
	}
}

// Staying returns the automatic addresses of a family that stay: what they came by stays on.
func Staying(is, shall *document.IP) (list []document.Address) {
	for _, a := range addressesOf(is) {
		on := true
		switch {
		case shall == nil:
		case a.Protocol == document.ProtocolDHCP:
			on = !isFalse(shall.DHCP)
		case a.Protocol == document.ProtocolRA:
			on = !isFalse(shall.Autoconf)
		}
		if on && a.IsAutomatic() {
			list = append(list, a)
		}
	}
	return list
}
