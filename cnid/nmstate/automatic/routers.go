// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package automatic

import (
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
)

// Router has what the routers of an interface tell about the resolver.
type Router struct {
	Interface string `json:"interface"`
	dhcp.Advertised
}

// RoutersOf returns what routers tell the interfaces with autoconfiguration whose settings let it
// in. A process knows what it has heard by itself, and before that what the earlier one knew: the
// kernel tells it once.
func RoutersOf(w *Wanted, heard []dhcp.Advertised, earlier Known, now time.Time) (list []Router) {
	for _, i := range w.Interfaces {
		if i.IPv6 == nil || !isTrue(i.IPv6.Autoconf) || isFalse(i.IPv6.AutoDNS) {
			continue
		}
		advertised := dhcp.Advertised{Index: i.Index}
		if at := slices.IndexFunc(heard, func(a dhcp.Advertised) bool { return a.Index == i.Index }); at >= 0 {
			advertised = heard[at]
		}
		if at := slices.IndexFunc(earlier.Routers, func(r Router) bool { return r.Interface == i.Name }); at >= 0 {
			advertised = advertised.After(earlier.Routers[at].Advertised, now)
		}
		if advertised = advertised.Live(now); !advertised.IsEmpty() {
			list = append(list, Router{i.Name, advertised})
		}
	}
	return list
}

// resolver returns the name servers and search domains as a resolver's file has them.
func (r Router) resolver() (servers, search []string) {
	for _, advertised := range r.DNS {
		if server, err := netip.ParseAddr(advertised.Text); err == nil {
			servers = append(servers, serverOn(server, r.Interface))
		}
	}
	for _, advertised := range r.Search {
		search = append(search, advertised.Text)
	}
	return servers, search
}
