// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"net/netip"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// checkAutomatic checks the settings of a family that say what comes automatically.
func (p *Problems) checkAutomatic(path string, ip *document.IP, family ipfamily.Family) {
	p.Uint32(path+".auto-route-table-id", ip.AutoTable)
	p.Uint32(path+".auto-route-metric", ip.AutoMetric)
	switch {
	case family == ipfamily.IPv6:
	case compare.IsTrue(ip.Autoconf):
		p.Add(path+".autoconf", "true: routers advertise no addresses of IPv4: set dhcp to true")
	case ip.DUID != "":
		p.Add(path+".dhcp-duid", "%s: it is a field of ipv6: write it there, or use dhcp-client-id", ip.DUID)
	}
	if family == ipfamily.IPv6 && ip.ClientID != "" {
		p.Add(path+".dhcp-client-id", "%s: it is a field of ipv4: write it there, or use dhcp-duid", ip.ClientID)
	}
	if table := ip.AutoTable; family == ipfamily.IPv6 && table != nil && *table != 0 && *table != document.MainTable {
		p.Add(
			path+".auto-route-table-id",
			"%d: the kernel has routes of router advertisements in the main table alone: remove it, or put the interface into a VRF",
			*table,
		)
	}
	p.checkToken(path, ip, family)
	p.check(path+".dhcp-client-id", ip.ClientID, dhcp.CheckClientID)
	p.check(path+".dhcp-duid", ip.DUID, dhcp.CheckDUID)
	p.check(path+".dhcp-custom-hostname", ip.CustomHostname, dhcp.CheckHostname)
}

// checkToken checks the last bits of addresses of autoconfiguration.
func (p *Problems) checkToken(path string, ip *document.IP, family ipfamily.Family) {
	if ip.Token == nil || *ip.Token == "" {
		return
	}
	token, err := compare.ParseAddress(*ip.Token)
	switch {
	case family == ipfamily.IPv4:
		p.Add(path+".token", "%s: it is a field of ipv6: write it there", *ip.Token)
	case err != nil || !startsWithZeros(token):
		p.Add(path+".token", "%s: want an address of IPv6 whose first 64 bits are zero, such as ::1", *ip.Token)
	case compare.IsFalse(ip.Autoconf) && !token.IsUnspecified():
		p.Add(
			path+".token",
			"%s: it is for addresses of autoconfiguration: set autoconf to true, or remove the token",
			*ip.Token,
		)
	}
}

func startsWithZeros(token netip.Addr) bool {
	const half = 64
	first, err := token.Prefix(half)
	return err == nil && token.Is6() && first.Addr().IsUnspecified()
}

// check checks a text that is there.
func (p *Problems) check(path, text string, with func(string) error) {
	if text == "" {
		return
	}
	if err := with(text); err != nil {
		p.Add(path, "%s: %v", text, err)
	}
}

// checkWait checks what a change of an interface waits for.
func (p *Problems) checkWait(path string, i document.Interface) {
	p.Word(path, i.WaitIP, document.WaitAny, document.WaitIPv4, document.WaitIPv6, document.WaitBoth)
	off := func(ip *document.IP) bool { return ip != nil && compare.IsFalse(ip.Enabled) }
	if off(i.IPv4) && (i.WaitIP == document.WaitIPv4 || i.WaitIP == document.WaitBoth) {
		p.Add(path, "%s: IPv4 is not enabled: enable it, or wait for ipv6", i.WaitIP)
	}
	if off(i.IPv6) && (i.WaitIP == document.WaitIPv6 || i.WaitIP == document.WaitBoth) {
		p.Add(path, "%s: IPv6 is not enabled: enable it, or wait for ipv4", i.WaitIP)
	}
}
