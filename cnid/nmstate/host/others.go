// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// Others tells what of a host's network belongs to others. Each function may be nil:
// nothing does.
type Others struct {
	Interface func(document.Interface) bool
	// Address is about an address with the length of its network's prefix, on any interface.
	Address func(netip.Prefix) bool
}

func (o Others) has(i document.Interface) bool { return o.Interface != nil && o.Interface(i) }

func (o Others) hasAddress(a document.Address) bool {
	ip, err := netip.ParseAddr(a.IP)
	return err == nil && o.Address != nil && o.Address(netip.PrefixFrom(ip, a.PrefixLength))
}

// hidden names the interfaces, and the interfaces with addresses, that a state does not show.
type hidden struct {
	// interfaces are the names and alternative names of interfaces of others.
	interfaces map[string]bool
	// four and six are the names of interfaces with addresses of others, by family.
	four, six map[string]bool
	// uplinks are the names of those that are shown as hardware.
	uplinks []string
}

// hide takes out of a state what belongs to others: interfaces with their routes, and
// addresses.
func (o Others) hide(state *document.State) hidden {
	h := hidden{interfaces: map[string]bool{}, four: map[string]bool{}, six: map[string]bool{}}
	state.Interfaces = slices.DeleteFunc(state.Interfaces, func(i document.Interface) bool {
		if !o.has(i) {
			return false
		}
		h.interfaces[i.Name] = true
		for _, a := range i.AltNames {
			h.interfaces[a.Name] = true
		}
		return true
	})
	for n := range state.Interfaces {
		i := &state.Interfaces[n]
		h.four[i.Name] = o.hideAddresses(i.IPv4)
		h.six[i.Name] = o.hideAddresses(i.IPv6)
		if h.four[i.Name] && len(i.IPv4.Addresses) == 0 {
			i.IPv4.Enabled = new(false) // It is so without addresses.
		}
	}
	if state.Routes != nil {
		of := func(r document.Route) bool { return h.interfaces[r.Interface] }
		state.Routes.Running = slices.DeleteFunc(state.Routes.Running, of)
		state.Routes.Config = slices.DeleteFunc(state.Routes.Config, of)
	}
	return h
}

// hideAddresses reports whether there were any.
func (o Others) hideAddresses(ip *document.IP) bool {
	if ip == nil {
		return false
	}
	all := len(ip.Addresses)
	ip.Addresses = slices.DeleteFunc(ip.Addresses, o.hasAddress)
	return len(ip.Addresses) < all
}
