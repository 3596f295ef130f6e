// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// showUplinks shows the uplinks of a host that is a container itself as hardware, and returns
// their names. They behave like hardware. Such an uplink is one end of a pair whose other end is
// in another network namespace. Therefore it would belong to others, like the devices of pods. It
// carries a default route or an address of a network. known are the former uplinks, which stay
// uplinks.
func (o Others) showUplinks(state *document.State, known []string) (names []string) {
	for n := range state.Interfaces {
		i := state.Interfaces[n]
		leadsOut := i.Type == document.VethPair && i.Veth != nil && i.Veth.Peer == ""
		if !leadsOut || !slices.Contains(known, i.Name) && !hasDefaultRoute(state, i.Name) && !inNetwork(i) {
			continue
		}
		// One that is shown anyway keeps its type: a change must not alter it.
		if shown := asHardware(i); o.has(i) && !o.has(shown) {
			state.Interfaces[n] = shown
			names = append(names, i.Name)
		}
	}
	return names
}

func asHardware(i document.Interface) document.Interface {
	i.Type, i.Veth = document.Ethernet, nil
	return i
}

func hasDefaultRoute(state *document.State, name string) bool {
	return state.Routes != nil && slices.ContainsFunc(state.Routes.Running, func(r document.Route) bool {
		return r.Interface == name && (r.Destination == "0.0.0.0/0" || r.Destination == "::/0")
	})
}

// inNetwork reports whether an interface has an address of a network with others. The
// node's end of a pod may have a single one, which is the pod's gateway.
func inNetwork(i document.Interface) bool {
	for _, ip := range []*document.IP{i.IPv4, i.IPv6} {
		if ip != nil && slices.ContainsFunc(ip.Addresses, ofNetwork) {
			return true
		}
	}
	return false
}

func ofNetwork(a document.Address) bool {
	ip, err := netip.ParseAddr(a.IP)
	return err == nil && !ip.IsLinkLocalUnicast() && a.PrefixLength < ip.BitLen()
}
