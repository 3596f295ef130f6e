// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/probe"
)

// publicName is a name that every resolver can be asked for.
const publicName = "root-servers.net."

// probes are the gateways of default routes, the name servers, and the addresses of Reach.
func (e *Engine) probes(before *document.State) []probe.Probe {
	var list []probe.Probe
	for _, gateway := range gateways(before) {
		list = append(list, probe.Gateway(gateway))
	}
	if before.DNS != nil && before.DNS.Running != nil {
		for _, server := range before.DNS.Running.Server {
			list = append(list, probe.Lookup(server, publicName))
		}
	}
	for _, address := range e.cfg.Reach {
		list = append(list, probe.TCP("the address", address))
	}
	return list
}

// gateways are the next hops of default routes, each once.
func gateways(state *document.State) []netip.Addr {
	var list []netip.Addr
	if state.Routes == nil {
		return nil
	}
	for _, route := range state.Routes.Running {
		ip, err := netip.ParseAddr(route.Address)
		if err != nil || (route.Destination != "0.0.0.0/0" && route.Destination != "::/0") {
			continue
		}
		if ip.IsLinkLocalUnicast() && ip.Is6() {
			ip = ip.WithZone(route.Interface)
		}
		if !slices.Contains(list, ip) {
			list = append(list, ip)
		}
	}
	return list
}
