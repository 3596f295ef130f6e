// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// stopAutomatic turns off DHCP and autoconfiguration, before other addresses change.
func (p *planner) stopAutomatic() {
	p.each(func(now, want *document.Interface) {
		for _, f := range familiesOf(now, want) {
			if isOn(*f.now, dhcp) && isOff(f.want, dhcp) || isOn(*f.now, autoconf) && isOff(f.want, autoconf) {
				p.setAutomatic(now, f)
			}
		}
	})
}

// startAutomatic turns them on, or changes their settings, before routes that may need a lease.
func (p *planner) startAutomatic() {
	p.each(func(now, want *document.Interface) {
		for _, f := range familiesOf(now, want) {
			if f.want.IsAutomatic() && automaticDiffers(*f.now, f.want) {
				p.setAutomatic(now, f)
			}
		}
	})
}

// familyOfInterface is a family of an interface that changes.
type familyOfInterface struct {
	name string
	now  **document.IP
	want *document.IP
}

func familiesOf(now, want *document.Interface) []familyOfInterface {
	return []familyOfInterface{{document.FamilyIPv4, &now.IPv4, want.IPv4}, {document.FamilyIPv6, &now.IPv6, want.IPv6}}
}

// setAutomatic sets what comes automatically, and notes the addresses that go with it.
func (p *planner) setAutomatic(now *document.Interface, f familyOfInterface) {
	set := f.want.Automatic()
	p.step(SetAutomatic{Name: now.Name, Family: f.name, IP: set})
	p.dirty[now.Name] = true
	is := document.IP{}
	if *f.now != nil {
		is = **f.now
	}
	changed := set
	changed.Enabled, changed.Forwarding = is.Enabled, is.Forwarding
	changed.Addresses = slices.DeleteFunc(slices.Clone(is.Addresses), func(a document.Address) bool {
		goes := a.Protocol == document.ProtocolDHCP && isOff(f.want, dhcp) ||
			a.Protocol == document.ProtocolRA && isOff(f.want, autoconf)
		if goes {
			p.loseSource(a.IP)
		}
		return goes
	})
	*f.now = &changed
	if len(is.Addresses) > 0 && len(changed.Addresses) == 0 && f.name == document.FamilyIPv4 {
		p.loseRoutes(now.Name, four)
	}
}

func dhcp(ip *document.IP) *bool     { return ip.DHCP }
func autoconf(ip *document.IP) *bool { return ip.Autoconf }

func isOn(ip *document.IP, setting func(*document.IP) *bool) bool {
	return ip != nil && setting(ip) != nil && *setting(ip)
}

// isOff reports whether a family says that it shall not have a setting.
func isOff(ip *document.IP, setting func(*document.IP) *bool) bool {
	return ip != nil && setting(ip) != nil && !*setting(ip)
}

// automaticDiffers reports whether a family that is lacks a setting of one that shall be.
func automaticDiffers(is, shall *document.IP) bool {
	now, want := document.IP{}, shall.Automatic()
	if is != nil {
		now = is.Automatic()
	}
	// Nobody uses name servers of an interface that no document has configured.
	for _, setting := range []**bool{&now.DHCP, &now.Autoconf, &now.AutoDNS} {
		if *setting == nil {
			*setting = new(false)
		}
	}
	if want.Token != nil && *want.Token == document.NoToken && now.Token == nil {
		want.Token = nil // A family without a token does not show it.
	}
	return !covers(reflect.ValueOf(now), reflect.ValueOf(want))
}

// static returns the addresses of a list that did not come automatically.
func static(list []document.Address) []document.Address {
	return slices.DeleteFunc(slices.Clone(list), document.Address.IsAutomatic)
}
