// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
)

// address checks an address that is there.
func (p *problems) address(path, text string) {
	if _, err := parseAddress(text); text != "" && err != nil {
		p.add(path, "%s: want an IP address", text)
	}
}

// parseAddress reads an address without zone.
func parseAddress(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err == nil && (ip.Zone() != "" || ip.Is4In6()) {
		err = fmt.Errorf("%s has a zone or is an IPv4 address in the form of IPv6", text)
	}
	return ip, err
}

// canonical is an address in the one form in which addresses are compared.
func canonical(text string) string {
	if ip, err := parseAddress(text); err == nil {
		return ip.String()
	}
	return text
}

// canonicalMAC is a MAC address in upper case with colons.
func canonicalMAC(text string) string {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return text
	}
	return strings.ToUpper(mac.String())
}

func isTrue(p *bool) bool  { return p != nil && *p }
func isFalse(p *bool) bool { return p != nil && !*p }

// checkIP checks the section of one family.
func (p *problems) checkIP(path string, ip *document.IP, family ipfamily.Family) {
	if ip == nil {
		return
	}
	if isFalse(ip.Enabled) && len(ip.Addresses) > 0 {
		p.add(path+".address", "the family is not enabled: remove the addresses, or set enabled to true")
	}
	p.checkAutomatic(path, ip, family)
	seen := map[string]bool{}
	for n, a := range ip.Addresses {
		at := fmt.Sprintf("%s.address[%d]", path, n)
		p.checkAddress(at, a, family)
		if seen[canonical(a.IP)] {
			p.add(at+".ip", "%s: it is there twice", a.IP)
		}
		seen[canonical(a.IP)] = true
	}
}

func (p *problems) checkAddress(path string, a document.Address, family ipfamily.Family) {
	ip, err := parseAddress(a.IP)
	if err != nil {
		p.add(path+".ip", "%q: want an IP address", a.IP)
		return
	}
	if !family.Has(ip) {
		p.add(path+".ip", "%s: want an address of %s", a.IP, family)
		return
	}
	if a.PrefixLength < 0 || a.PrefixLength > ip.BitLen() {
		p.add(path+".prefix-length", "%d: want 0 to %d", a.PrefixLength, ip.BitLen())
	}
}

// completed makes the merged settings of a family consistent: one that is disabled has no
// addresses, and one that is given addresses, or asks for them, is enabled. The addresses are
// the static ones.
func completed(merged, want, have *document.IP, family ipfamily.Family) *document.IP {
	if merged == nil {
		return nil
	}
	ip := *merged
	if want != nil && want.Enabled == nil && (len(want.Addresses) > 0 || isTrue(want.DHCP) || isTrue(want.Autoconf)) {
		ip.Enabled = new(true)
	}
	if ip.Addresses != nil {
		static := []document.Address{}
		for _, a := range ip.Addresses {
			if !a.IsAutomatic() {
				static = append(static, document.Address{IP: canonical(a.IP), PrefixLength: a.PrefixLength})
			}
		}
		ip.Addresses = static
	}
	settled(&ip, want, have, family)
	if isFalse(ip.Enabled) {
		ip.Addresses = []document.Address{}
	}
	return &ip
}

// bare returns settings of a family without addresses, and without DHCP. What the kernel does
// by itself stays.
func bare(ip *document.IP) *document.IP {
	return &document.IP{Enabled: orNew(ip).Enabled, DHCP: off(orNew(ip).DHCP), Addresses: []document.Address{}}
}

// stripPorts takes the addresses off ports of bonds and bridges, which get no packets of
// their own. All ports of a bond have its MAC address, and those without an MTU that the
// document names its MTU.
func (r *resolution) stripPorts() {
	for _, name := range r.names() {
		i := r.final[name]
		if r.leavesBond(*i) && r.desired[name].MACAddress == "" {
			i.MACAddress = "" // It gets back its own.
		}
		if !r.isPort(*i) || gone(*i) {
			continue
		}
		i.IPv4, i.IPv6 = bare(i.IPv4), bare(i.IPv6)
		controller, _ := r.get(controllerOf(*i))
		if controller.Type == document.Bond {
			i.MACAddress = ""
			if r.desired[name].MTU == nil {
				i.MTU = new(r.mtuOf(controller, maxInterfaces))
			}
		}
	}
}

// leavesBond reports whether an interface is a port of a bond that it shall not be.
func (r *resolution) leavesBond(i document.Interface) bool {
	was := controllerOf(r.current[i.Name])
	return was != "" && r.current[was].Type == document.Bond && controllerOf(i) != was
}

// checkPortAddresses refuses addresses that the document gives to ports.
func (r *resolution) checkPortAddresses(i document.Interface) {
	if !r.isPort(i) {
		return
	}
	want, controller := r.desired[i.Name], controllerOf(i)
	for _, family := range []struct {
		name string
		ip   *document.IP
	}{{"ipv4", want.IPv4}, {"ipv6", want.IPv6}} {
		if len(addressesOf(family.ip)) > 0 {
			r.add(r.at(i.Name)+"."+family.name+".address", "%s is a port of %s: give the addresses to %s", i.Name, controller, controller)
		}
		r.checkPortAutomatic(r.at(i.Name)+"."+family.name, i, family.ip)
	}
}
