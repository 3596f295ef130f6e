// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package automatic

import (
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/dhcp"
	"github.com/alioth-net/alioth/cnid/nmstate/kernel"
)

// DefaultMetric is the metric of routes of leases: routes that documents declare come first.
const DefaultMetric = 100

// Learned returns what a family of an interface has of a lease: nothing of one that is nil.
// settings are the settings of the family, nil if it has no client.
func Learned(held dhcp.Held, settings *document.IP, now time.Time) kernel.Learned {
	learned := kernel.Learned{Index: uint32(held.Index), Family: unix.AF_INET}
	if held.Family == ipfamily.IPv6 {
		learned.Family = unix.AF_INET6
	}
	if settings == nil || !isTrue(settings.DHCP) || !held.Lease.HasAddress() || held.Lease.Expired(now) {
		return learned
	}
	learned.Address = held.Lease.Address
	learned.Valid, learned.Preferred = held.Lease.Lifetimes(now)
	if held.Family == ipfamily.IPv4 {
		learned.Routes = routesOf(held.Lease, settings)
	}
	return learned
}

// routesOf are the routes of a lease that the settings let in, after the one to the network of
// the address.
func routesOf(l *dhcp.Lease, settings *document.IP) []kernel.LearnedRoute {
	table, metric := uint32(document.MainTable), uint32(DefaultMetric)
	if settings.AutoTable != nil && *settings.AutoTable > 0 {
		table = uint32(*settings.AutoTable)
	}
	if settings.AutoMetric != nil {
		metric = uint32(*settings.AutoMetric)
	}
	var list []kernel.LearnedRoute
	if !l.Address.IsSingleIP() {
		list = append(list, kernel.LearnedRoute{Destination: l.Address.Masked(), Table: table, Metric: metric, MTU: l.MTU})
	}
	for _, r := range l.Routes {
		if isFalse(settings.AutoRoutes) || isFalse(settings.AutoGateway) && r.Destination.Bits() == 0 ||
			r.Destination == l.Address.Masked() {
			continue
		}
		list = append(list, kernel.LearnedRoute{
			Destination: r.Destination, Gateway: r.Gateway, OnLink: r.OnLink, Table: table, Metric: metric, MTU: l.MTU,
		})
	}
	return list
}

// Resolver returns the configuration of the resolver: the static one, then the entries that
// clients have learned, and then the entries that routers advertise (RFC 8106, section 5.3.1),
// each once.
func Resolver(static document.Resolver, known Known) document.Resolver {
	sum := document.Resolver{
		Server:  slices.Clone(static.Server),
		Search:  slices.Clone(static.Search),
		Options: slices.Clone(static.Options),
	}
	for _, c := range known.Clients {
		sum.Server, sum.Search = joined(sum.Server, c.DNS), joined(sum.Search, c.Search)
	}
	for _, r := range known.Routers {
		servers, search := r.resolver()
		sum.Server, sum.Search = joined(sum.Server, servers), joined(sum.Search, search)
	}
	return sum
}

func joined(list, more []string) []string {
	for _, text := range more {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// KnownOf returns the facts about a client, by the settings of its family.
func KnownOf(held dhcp.Held, settings *document.IP) Client {
	c := Client{Key: held.Key, Bound: held.Lease != nil, Problem: held.Problem.Text, Since: held.Problem.Since}
	if held.Lease == nil || settings == nil || isFalse(settings.AutoDNS) {
		return c
	}
	for _, server := range held.Lease.DNS {
		c.DNS = append(c.DNS, serverOn(server, held.Interface))
	}
	c.Search = held.Lease.Search
	return c
}

// serverOn is a name server as a resolver's file has it: a link-local one has a zone.
func serverOn(server netip.Addr, name string) string {
	if server.IsLinkLocalUnicast() && server.Is6() {
		server = server.WithZone(name)
	}
	return server.String()
}
