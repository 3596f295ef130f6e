// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// completed makes the merged settings of a family consistent: one that is disabled has no
// addresses, and one that is given addresses, or asks for them, is enabled. The addresses are
// the static ones.
func completed(merged, want, have *document.IP, family ipfamily.Family) *document.IP {
	if merged == nil {
		return nil
	}
	ip := *merged
	if want != nil && want.Enabled == nil &&
		(len(want.Addresses) > 0 || compare.IsTrue(want.DHCP) || compare.IsTrue(want.Autoconf)) {
		ip.Enabled = new(true)
	}
	if ip.Addresses != nil {
		static := []document.Address{}
		for _, a := range ip.Addresses {
			if !a.IsAutomatic() {
				static = append(static, document.Address{IP: compare.CanonicalAddress(a.IP), PrefixLength: a.PrefixLength})
			}
		}
		ip.Addresses = static
	}
	settled(&ip, want, have, family)
	if compare.IsFalse(ip.Enabled) {
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
			r.Add(
				r.at(i.Name)+"."+family.name+".address",
				"%s is a port of %s: give the addresses to %s",
				i.Name,
				controller,
				controller,
			)
		}
		r.checkPortAutomatic(r.at(i.Name)+"."+family.name, i, family.ip)
	}
}
