// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package automatic keeps the automatic part of a host's network, by DHCP and by router
// advertisements: the kernel has no place for it. One file has the wanted settings, which the
// engine writes. A second file has the facts about the clients, which package serve writes. Both
// files outlive processes. After a boot the first file counts as empty, like the kernel's
// settings, except for its part about the resolver.
package automatic

import (
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/resolvconf"
)

// Wanted has the settings of all that is configured automatically.
type Wanted struct {
	// Boot identifies the boot of the host at the time when the settings were written.
	Boot       string      `json:"boot"`
	Interfaces []Interface `json:"interfaces,omitempty"`
	// Static is the part of the resolver that leases have not added; nil while they add nothing.
	Static *document.Resolver `json:"static,omitempty"`
	// File is the resolver's file as it was before leases added to it; nil while they add
	// nothing, or once a document has changed the resolver.
	File *resolvconf.Copy `json:"file,omitempty"`
	// Former reports that Static and File are of an earlier boot. The file may be another one
	// since.
	Former bool `json:"former,omitempty"`
}

// Interface is an interface with the automatic settings of its families, nil for a family
// without any.
type Interface struct {
	Name string `json:"name"`
	// Index is the kernel's number of the interface: another one of the same name gets nothing.
	Index int          `json:"index"`
	IPv4  *document.IP `json:"ipv4,omitempty"`
	IPv6  *document.IP `json:"ipv6,omitempty"`
}

// family returns where the settings of a family are.
func (i *Interface) family(name string) **document.IP {
	if name == document.FamilyIPv6 {
		return &i.IPv6
	}
	return &i.IPv4
}

// Set notes the settings of a step for the interface with an index.
func (w *Wanted) Set(step plan.SetAutomatic, index int) {
	i := Interface{Name: step.Name, Index: index}
	if at := w.at(step.Name); at >= 0 && w.Interfaces[at].Index == index {
		i = w.Interfaces[at]
	}
	w.Remove(step.Name)
	*i.family(step.Family) = nil
	if step.IP.IsAutomatic() {
		*i.family(step.Family) = new(step.IP.Automatic())
	}
	if i.IPv4 == nil && i.IPv6 == nil {
		return
	}
	w.Interfaces = append(w.Interfaces, i)
	slices.SortFunc(w.Interfaces, func(a, b Interface) int { return strings.Compare(a.Name, b.Name) })
}

// Remove notes that nothing is automatic on an interface.
func (w *Wanted) Remove(name string) {
	w.Interfaces = slices.DeleteFunc(slices.Clone(w.Interfaces), func(i Interface) bool { return i.Name == name })
}

func (w *Wanted) at(name string) int {
	return slices.IndexFunc(w.Interfaces, func(i Interface) bool { return i.Name == name })
}

// Of returns the automatic settings of a family of an interface, nil without any.
func (w *Wanted) Of(key dhcp.Key, index int) *document.IP {
	at := w.at(key.Interface)
	if at < 0 || w.Interfaces[at].Index != index {
		return nil
	}
	return *w.Interfaces[at].family(familyOf(key))
}

func familyOf(key dhcp.Key) string {
	if key.Family == ipfamily.IPv6 {
		return document.FamilyIPv6
	}
	return document.FamilyIPv4
}

// Show adds the settings to a state of the kernel. index returns the kernel's number of an
// interface, and 0 for an unknown name.
func (w *Wanted) Show(state *document.State, index func(name string) int) {
	for n := range state.Interfaces {
		shown := &state.Interfaces[n]
		at := w.at(shown.Name)
		if at < 0 || w.Interfaces[at].Index != index(shown.Name) {
			continue
		}
		shown.IPv4, shown.IPv6 = with(shown.IPv4, w.Interfaces[at].IPv4), with(shown.IPv6, w.Interfaces[at].IPv6)
	}
	if w.Static != nil && state.DNS != nil {
		state.DNS.Config = w.Static
	}
}

// with returns the shown settings of a family with its automatic settings. The kernel tells
// whether autoconfiguration is on and has a token, and whether IPv6 is enabled.
func with(shown, settings *document.IP) *document.IP {
	if settings == nil || shown == nil {
		return shown
	}
	ip := *settings
	ip.Addresses, ip.Enabled, ip.Forwarding = shown.Addresses, shown.Enabled, shown.Forwarding
	ip.Autoconf, ip.Token = shown.Autoconf, shown.Token
	if isTrue(ip.DHCP) && ip.Autoconf == nil {
		ip.Enabled = new(true) // IPv4 is shown as enabled for its addresses alone.
	}
	if ip.DHCP == nil {
		ip.DHCP = new(false)
	}
	return &ip
}

func isTrue(p *bool) bool  { return p != nil && *p }
func isFalse(p *bool) bool { return p != nil && !*p }

// Clients returns the DHCP clients that shall run. hostname is the name of the host.
func (w *Wanted) Clients(hostname string) []dhcp.Config {
	var list []dhcp.Config
	for _, i := range w.Interfaces {
		c := dhcp.Config{Interface: i.Name}
		if i.IPv4 != nil && isTrue(i.IPv4.DHCP) {
			c.V4 = &dhcp.V4{ClientID: i.IPv4.ClientID, Hostname: hostnameOf(i.IPv4, hostname)}
			if i.IPv6 != nil {
				c.V4.DUID = i.IPv6.DUID
			}
		}
		if i.IPv6 != nil && isTrue(i.IPv6.DHCP) {
			c.V6 = &dhcp.V6{DUID: i.IPv6.DUID, Hostname: hostnameOf(i.IPv6, hostname), Mode: dhcp.Stateful}
			if isTrue(i.IPv6.Autoconf) {
				c.V6.Mode = dhcp.ByRouter
			}
		}
		if c.V4 != nil || c.V6 != nil {
			list = append(list, c)
		}
	}
	return list
}

// hostnameOf is the name that a client sends, "" for none.
func hostnameOf(ip *document.IP, hostname string) string {
	switch {
	case isFalse(ip.SendHostname):
		return ""
	case ip.CustomHostname != "":
		return ip.CustomHostname
	case dhcp.CheckHostname(hostname) != nil:
		return "" // The host has a name that no server takes, for example "(none)".
	default:
		return hostname
	}
}
