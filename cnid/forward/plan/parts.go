// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/nmstate"
	"github.com/alioth-net/alioth/store/rows/roles"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

// part is a part of the plan with the rows that it depends on. A test fails for a kind of
// row that no part declares.
type part struct {
	name string
	// rows are declared by kind: what a row of it makes stale, as it was before a change and
	// as it is after.
	rows []dependency
}

// dependency marks the parts of a plan that a row of one kind makes stale.
type dependency struct {
	kind reflect.Type
	mark func(c *comparison, row any)
}

// onRow declares a dependency on rows of a kind.
func onRow[Row any](mark func(*comparison, *Row)) dependency {
	return dependency{reflect.TypeFor[*Row](), func(c *comparison, row any) { mark(c, row.(*Row)) }}
}

// nodePart is a part that belongs to no VPC alone. All of them depend on what the VPCs
// have here, too.
type nodePart struct {
	part
	plan func(*nodeBuilder)
}

// onPart declares a dependency of a node's part on rows of a kind. when selects the
// rows; nil selects all.
func onPart[Row any](part string, when func(Input, *Row) bool) dependency {
	return onRow(func(c *comparison, row *Row) {
		if when == nil || when(c.in, row) {
			c.stale.parts[part] = true
		}
	})
}

// Names of the node's parts.
const (
	nodesPart      = "nodes"
	announcedPart  = "announced"
	egressPart     = "egress"
	namespacesPart = "namespaces"
	probesPart     = "probes"
	hostPortsPart  = "hostports"
	devicesPart    = "devices"
	filterPart     = "filter"
)

var nodeParts = []nodePart{
	{part{nodesPart, []dependency{onPart[store.Node](nodesPart, nil)}}, (*nodeBuilder).nodes},
	{part{announcedPart, []dependency{onPart[external.Address](announcedPart, nil)}}, (*nodeBuilder).announced},
	{part{egressPart, []dependency{
		onPart(egressPart, isDefaultVPC), onPart[store.ServiceCIDR](egressPart, nil), onPart[store.Node](egressPart, nil),
		onPart[external.Address](egressPart, nil),
	}}, (*nodeBuilder).closed},
	{part{namespacesPart, nil}, (*nodeBuilder).namespaces},
	{part{probesPart, []dependency{
		onPart[store.Pod](probesPart, nil), onPart(probesPart, isThisNode),
		onPart(probesPart, isOfAPIServer), onPart(probesPart, isJudgedAPIServer),
	}}, (*nodeBuilder).probes},
	{part{hostPortsPart, []dependency{
		onPart[external.HostAccess](hostPortsPart, nil), onPart[store.Namespace](hostPortsPart, nil),
		onPart(hostPortsPart, func(_ Input, row *store.Service) bool { return services.HasNodePorts(row) }),
		onPart(hostPortsPart, func(_ Input, row *scaled.Endpoint) bool { return row.Head != nil && row.Head.HasNodePorts() }),
	}}, (*nodeBuilder).hostPorts},
	{part{devicesPart, []dependency{onPart[store.Namespace](devicesPart, nil)}}, (*nodeBuilder).devices},
	{part{filterPart, []dependency{
		onPart(filterPart, isDefaultVPC), onPart(filterPart, isOfDefaultVPC), onPart[store.Node](filterPart, nil),
		onPart(filterPart, isOfAPIServer), onPart(filterPart, isJudgedAPIServer),
	}}, (*nodeBuilder).filter},
}

func isDefaultVPC(in Input, row *store.VPC) bool { return row.Name == in.DefaultVPC }

func isOfDefaultVPC(in Input, row *store.Subnet) bool { return row.VPC == in.DefaultVPC }

func isThisNode(in Input, row *store.Node) bool { return row.Name == in.Node }

func isOfAPIServer(in Input, row *store.EndpointSlice) bool {
	return in.APIServer == serviceplan.Ref{Namespace: row.Namespace, Name: row.Service}
}

func isJudgedAPIServer(in Input, row *scaled.Endpoint) bool {
	return in.APIServer == serviceplan.Ref{Namespace: row.Namespace, Name: row.Service}
}

// vpcPart are the parts of VPCs, by name.
var vpcPart = part{"vpc", []dependency{
	onRow(func(c *comparison, row *store.VPC) { c.stale.vpcs[row.Name] = true }),
	onRow(func(c *comparison, row *store.Subnet) { c.stale.vpcs[row.VPC] = true }),
	onRow(func(c *comparison, row *roles.Member) { c.stale.vpcs[row.VPC] = true }),
	onRow(func(c *comparison, row *store.Address) { c.stale.vpcs[row.VPC] = true }),
	onRow(func(c *comparison, _ *store.Node) { c.stale.vpcsOf(c.here) }), // any address may lead to it
	onRow((*comparison).pod),
	onRow(func(c *comparison, row *store.EndpointSlice) { // the API server's addresses are reserved
		if isOfAPIServer(c.in, row) {
			c.stale.vpcs[c.in.DefaultVPC] = true
		}
	}),
	onRow(func(c *comparison, row *scaled.Endpoint) {
		if isJudgedAPIServer(c.in, row) {
			c.stale.vpcs[c.in.DefaultVPC] = true
		}
	}),
}}

// servicesPart are Services, each by itself.
var servicesPart = part{"services", []dependency{
	onRow(func(c *comparison, row *store.Service) { c.service(row) }),
	onRow(func(c *comparison, row *store.EndpointSlice) {
		c.services().Mark(row.Namespace, row.Service)
	}),
	onRow(func(c *comparison, row *scaled.Endpoint) {
		c.services().Mark(row.Namespace, row.Service)
	}),
	onRow(func(c *comparison, row *store.SharedService) {
		c.services().Mark(row.ServiceNamespace, row.ServiceName)
	}),
	onRow((*comparison).addressOfService),
	onRow(func(c *comparison, row *store.VPC) {
		c.services().VPCs[row.Name] = true
		if isDefaultVPC(c.in, row) {
			c.services().Wide, c.services().Exposed = true, true
		}
	}),
	onRow((*comparison).network),
	onRow(func(c *comparison, row *store.Namespace) {
		c.inNamespace(row.Name)
		c.services().Wide = true
		c.withExternalIPs()
	}),
	onRow(func(c *comparison, _ *store.Node) { c.services().Wide, c.services().Exposed = true, true }),
	onRow(func(c *comparison, _ *store.ServiceCIDR) { c.services().Wide = true }),
	onRow(func(c *comparison, row *store.HostPod) {
		if row.Node == c.in.Node {
			c.inNamespace(row.Namespace)
		}
	}),
	onRow(func(c *comparison, _ *external.Pool) { c.withExternalIPs() }),
	onRow(func(c *comparison, row *external.Address) {
		c.services().Mark(row.Holder.Namespace, row.Holder.Name)
		c.services().Anywhere[row.IP] = true // egress leads to none
		c.naming(row.IP)
	}),
}}

// irrelevant are rows that a node follows, and on which no part of its plan depends.
var irrelevant = []reflect.Type{
	reflect.TypeFor[*store.RollCall](), reflect.TypeFor[*multinet.HostLink](), reflect.TypeFor[*multinet.LinkReport](),
	reflect.TypeFor[*multinet.Grant](),
	reflect.TypeFor[*nmstate.State](), reflect.TypeFor[*nmstate.Policy](), reflect.TypeFor[*nmstate.Enactment](),
}

// dependencies has the dependencies of all parts, by the kind of the row.
var dependencies = func() map[reflect.Type][]dependency {
	all := map[reflect.Type][]dependency{}
	declare := func(p part) {
		for _, d := range p.rows {
			all[d.kind] = append(all[d.kind], d)
		}
	}
	declare(vpcPart)
	declare(servicesPart)
	declare(domainsPart)
	for _, p := range nodeParts {
		declare(p.part)
	}
	return all
}()

// comparison marks the parts that changed rows make stale.
type comparison struct {
	stale *stale
	tx    store.ReadTx
	in    Input
	// here are the names of the VPCs that may be planned.
	here map[string]bool
	// owners is Planner.owners.
	owners map[netip.Addr]string
}

// row marks the parts that depend on a row. A row of an undeclared kind makes all stale.
func (c *comparison) row(row any) {
	if row == nil {
		return
	}
	declared, known := dependencies[reflect.TypeOf(row)]
	for _, d := range declared {
		d.mark(c, row)
	}
	if !known && !slices.Contains(irrelevant, reflect.TypeOf(row)) {
		c.stale.vpcsOf(c.here)
		c.stale.domains, c.stale.node, c.stale.services.All = true, true, true
	}
}

func (c *comparison) services() *serviceplan.Stale { return &c.stale.services }

// pod marks the VPCs with addresses that name a changed pod. The pod decides whether its
// addresses count, and whether the operator keeps missing ones for it.
func (c *comparison) pod(row *store.Pod) {
	now := store.GetPod(c.tx, row.UID)
	for _, rec := range c.in.Records {
		if rec.Pod.UID == row.UID && slices.ContainsFunc(rec.Addrs, func(prefix netip.Prefix) bool {
			return store.AddressByIP(c.tx, rec.VPC, prefix.Addr()) == nil
		}) {
			c.stale.vpcs[rec.VPC] = true
		}
	}
	for _, address := range store.AddressesNaming(c.tx, row.UID) {
		if now == nil || !now.Holds(address) {
			c.stale.vpcs[address.VPC] = true
		}
	}
}

// service marks a Service. If one of its external addresses belongs to another tenant than
// before, it marks all Services that name the address: a tenant can make any number of them.
func (c *comparison) service(row *store.Service) {
	c.services().Mark(row.Namespace, row.Name)
	for _, ip := range row.ExternalIPs {
		owner := services.OwnerOfExternalIP(c.tx, ip)
		if last, known := c.owners[ip]; !known || last != owner {
			c.naming(ip)
		}
		if c.owners[ip] = owner; !isNamed(c.tx, ip) {
			delete(c.owners, ip)
		}
	}
}

// isNamed reports whether a Service names an external address.
func isNamed(tx store.ReadTx, ip netip.Addr) bool {
	for range store.ServicesNaming(tx, ip) {
		return true
	}
	return false
}

// addressOfService marks the Services whose slices name an address, the one whose virtual
// address it is, and those that lead to another node by it.
func (c *comparison) addressOfService(row *store.Address) {
	c.services().Named[serviceplan.VPCAddress{VPC: row.Domain(), IP: row.IP}] = true
	switch row.Holder.Kind {
	case store.HolderService:
		c.services().Mark(row.Holder.Namespace, row.Holder.Name)
	case store.HolderNode:
		c.services().Exposed = true
	}
}

// network marks the Services that may belong to a Network's VPC: the Services
// of its namespace and of its tenant that name the Network, or no Network.
func (c *comparison) network(row *store.Network) {
	namespaces := []string{row.Namespace}
	for _, ns := range store.NamespacesByTenant(c.tx, row.Tenant) {
		namespaces = append(namespaces, ns.Name)
	}
	for _, namespace := range namespaces {
		for _, label := range []string{row.Name, ""} {
			for _, service := range store.ServicesByNetwork(c.tx, namespace, label) {
				c.services().Mark(service.Namespace, service.Name)
			}
		}
	}
}

func (c *comparison) inNamespace(name string) {
	for part := range scaled.ByNamespace(c.tx, name) {
		c.services().Mark(part.Namespace, part.Service)
	}
	for _, service := range store.ServicesByNamespace(c.tx, name) {
		c.services().Mark(service.Namespace, service.Name)
	}
}

// withExternalIPs marks the Services that name an external address. Each address may belong to
// another tenant than before.
func (c *comparison) withExternalIPs() {
	clear(c.owners)
	for _, service := range store.ServicesWithExternalIPs(c.tx) {
		c.services().Mark(service.Namespace, service.Name)
	}
}

// naming marks the Services that name an external address.
func (c *comparison) naming(ip netip.Addr) {
	for service := range store.ServicesNaming(c.tx, ip) {
		c.services().Mark(service.Namespace, service.Name)
	}
}
