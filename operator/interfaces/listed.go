// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package interfaces

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/annotations"
	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/netif"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/pod"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// request is one requested interface with its network: a VPC, or a network outside of every VPC.
type request struct {
	annotations.Interface
	name string
	// table is the routing table of the requested routes, 0 without any.
	table int
	// main are the routes in the main table.
	main []netif.Route
	// net is the DANM network, nil for a VPC that the pod names itself.
	net *multinet.Network
	// target has the VPC; its VPC is nil outside.
	target tenancy.Target
	// decided is the attachment of an interface that no list requests, nil for others.
	decided *pod.Desired
	// vf has the settings of an interface on a device.
	vf netif.VF
	// delegate is the work for CNI plugins, nil for other interfaces.
	delegate *delegate
	// definition is namespace/name of the selected NetworkAttachmentDefinition, or "".
	definition string
	// defaultRoute: the pod's default routes lead through this interface, by gateways if any are
	// given. noDefaultRoute: they lead through another interface.
	defaultRoute, noDefaultRoute bool
	gateways                     []netip.Addr
	// notices are events about requests that are not carried out.
	notices []pod.Notice
}

func (r request) inVPC() bool { return r.target.VPC != nil }

// listed resolves the interfaces of a list, or refuses the pod.
func (cfg Config) listed(tx store.ReadTx, p *store.Pod, list []annotations.Interface) ([]request, *tenancy.Refusal) {
	if len(list) > cfg.Limit {
		return nil, cfg.tooMany(len(list))
	}
	requests := make([]request, len(list))
	for i, one := range list {
		r, refusal := cfg.resolve(tx, p, one)
		if refusal != nil {
			return nil, at(i, refusal)
		}
		requests[i] = r
	}
	return requests, cfg.name(requests)
}

// firstAddressed refuses a first interface without an address: container runtimes do not start a
// pod without an address, and would try for ever. CNI plugins may have an address that Alioth does
// not know.
func firstAddressed(requests []request) *tenancy.Refusal {
	if len(requests) == 0 {
		return nil
	}
	r := requests[0]
	if r.inVPC() || r.decided != nil || r.chosenByPlugins() || r.addressed(ipfamily.IPv4) || r.addressed(ipfamily.IPv6) {
		return nil
	}
	return invalid(
		"interface 0: the first interface of a pod needs an address, and %s gives it none: write \"ip\": \"dynamic\" or \"ip6\": \"dynamic\", or list an interface with an address before it",
		r.net.Ref,
	)
}

func (cfg Config) tooMany(n int) *tenancy.Refusal {
	return invalid(
		"the pod requests %d interfaces, and a pod may have %d (operator's flag --interfaces-per-pod)",
		n,
		cfg.Limit,
	)
}

// desired returns the attachments for all requests of a pod, or refuses it.
func (cfg Config) desired(tx store.ReadTx, p *store.Pod, requests []request) ([]pod.Desired, *tenancy.Refusal) {
	if len(requests) > cfg.Limit {
		return nil, cfg.tooMany(len(requests))
	}
	refusal := cmp.Or(
		namesApart(requests),
		checkDevices(p, requests),
		checkConfigs(requests),
		reachability(p, requests),
		moveDefaultRoute(tx, requests),
		setMainRoutes(requests),
		firstAddressed(requests),
	)
	if refusal != nil {
		return nil, refusal
	}
	setTables(requests)
	desired := make([]pod.Desired, len(requests))
	for i, r := range requests {
		one, refusal := cfg.attachment(tx, r)
		if refusal != nil {
			return nil, at(i, refusal)
		}
		desired[i] = one
	}
	return desired, nil
}

// namesApart refuses two interfaces with one name: of a list, and of selected definitions.
func namesApart(requests []request) *tenancy.Refusal {
	seen := map[string]bool{}
	for _, r := range requests {
		if seen[r.name] {
			return invalid(
				"two interfaces would have the name %s: select a definition with another name for its interface, for example %s@net9",
				r.name,
				r.definition,
			)
		}
		seen[r.name] = true
	}
	return nil
}

// at adds the place in the list to a refusal.
func at(i int, refusal *tenancy.Refusal) *tenancy.Refusal {
	return &tenancy.Refusal{Reason: refusal.Reason, Message: fmt.Sprintf("interface %d: %s", i, refusal.Message)}
}

// name sets the names of the interfaces.
func (cfg Config) name(requests []request) *tenancy.Refusal {
	prefixes := make([]string, len(requests))
	for i, r := range requests {
		if r.net != nil {
			prefixes[i] = r.net.Prefix
		}
	}
	names, err := annotations.InterfaceNames(prefixes, cfg.LegacyNames)
	if err != nil {
		return invalid("%v", err)
	}
	for i := range requests {
		requests[i].name = names[i]
	}
	return nil
}

// resolve finds the network of a request, and refuses a network that the pod may not use now.
func (cfg Config) resolve(tx store.ReadTx, p *store.Pod, one annotations.Interface) (request, *tenancy.Refusal) {
	if one.Kind == annotations.TargetVPC {
		target, refusal := namedVPC(tx, p, one)
		return request{Interface: one, target: target}, refusal
	}
	net, refusal := usable(tx, p, one.Target)
	if refusal != nil {
		return request{}, refusal
	}
	r := request{Interface: one, net: net, vf: net.VF}
	if slices.Contains(cfg.VPCTypes, net.Type) {
		r.target, refusal = cfg.standsForVPC(tx, p, r)
		return r, refusal
	}
	if cfg.Delegation && !multinet.Dynamic(net.Type) {
		return cfg.static(tx, p, r)
	}
	if !slices.Contains(cfg.Kinds, net.Type) {
		return r, &tenancy.Refusal{Reason: v1alpha1.NetworkTypeReason, Message: fmt.Sprintf(
			"%s is of type %q, and nodes attach pods to networks of the types %v: use a network of one of them",
			net.Ref,
			net.Type,
			cfg.Kinds,
		)}
	}
	if multinet.Dynamic(net.Type) && !r.onDevice() && net.HostDevice == "" {
		return r, &tenancy.Refusal{Reason: v1alpha1.NetworkTypeReason, Message: fmt.Sprintf(
			"%s names no device of the nodes, from which an interface of type %q is derived: its owner can set spec.Options.host_device",
			net.Ref,
			net.Type,
		)}
	}
	return r, nil
}

// usable returns the network that a pod names, or the refusal of the pod.
func usable(tx store.ReadTx, p *store.Pod, target annotations.Target) (*multinet.Network, *tenancy.Refusal) {
	namespace := namespaceOf(target.Kind, p)
	net := multinet.Find(tx, target.Kind, namespace, target.Name)
	switch {
	case net == nil:
		return nil, &tenancy.Refusal{Reason: v1alpha1.NetworkNotFoundReason, Message: fmt.Sprintf(
			"%s does not exist: create it, or correct the list or the definition that names it",
			multinet.Ref{Kind: target.Kind, Namespace: namespace, Name: target.Name},
		)}
	case net.Deleting:
		return nil, &tenancy.Refusal{
			Reason:  v1alpha1.NetworkNotReadyReason,
			Message: fmt.Sprintf("%s is being deleted", net.Ref),
		}
	case !net.Admits(p.Namespace):
		return nil, &tenancy.Refusal{Reason: v1alpha1.TenantNotAllowedReason, Message: fmt.Sprintf(
			"%s does not allow namespace %q: the cluster's operator can add it to spec.AllowedTenants", net.Ref, p.Namespace)}
	case net.Ready && net.Unexamined:
		return nil, &tenancy.Refusal{
			Reason:  v1alpha1.NetworkNotReadyReason,
			Message: fmt.Sprintf("%s has just changed: waiting until the operator has examined it", net.Ref),
		}
	case !net.Ready:
		return nil, &tenancy.Refusal{Reason: v1alpha1.NetworkNotReadyReason, Message: fmt.Sprintf(
			"%s is not ready: %s", net.Ref, cmp.Or(net.Message, "the operator has not examined it yet"))}
	}
	return net, nil
}

// namespaceOf returns the namespace where a pod finds networks of a kind, "" for networks of the
// whole cluster.
func namespaceOf(kind string, p *store.Pod) string {
	if kind == multinet.KindClusterNetwork {
		return ""
	}
	return p.Namespace
}

// namedVPC returns the VPC that a pod names. It must allow the pod's tenant, as it must
// for a Network.
func namedVPC(tx store.ReadTx, p *store.Pod, one annotations.Interface) (tenancy.Target, *tenancy.Refusal) {
	if refusal := alwaysAddressed("VPC "+one.Name, one); refusal != nil {
		return tenancy.Target{}, refusal
	}
	asNetwork := &store.Network{Tenant: p.Tenant, VPC: one.Name}
	if cause := tenancy.CheckNetwork(tx, asNetwork); cause != nil {
		return tenancy.Target{}, &tenancy.Refusal{Reason: v1alpha1.NetworkNotReadyReason, Message: cause.Message}
	}
	return tenancy.Target{VPC: store.GetVPC(tx, one.Name)}, nil
}

// standsForVPC returns the VPC that the pod would have without a request, for a network whose type
// means this VPC.
func (cfg Config) standsForVPC(tx store.ReadTx, p *store.Pod, r request) (tenancy.Target, *tenancy.Refusal) {
	if refusal := alwaysAddressed(fmt.Sprintf("%s (type %s)", r.net.Ref, r.net.Type), r.Interface); refusal != nil {
		return tenancy.Target{}, refusal
	}
	if len(r.Routes) > 0 {
		return tenancy.Target{}, invalid(
			"%s stands for a VPC, which has no routing table for \"proutes\": remove them",
			r.net.Ref,
		)
	}
	return tenancy.Resolve(tx, tenancy.Member{Tenant: p.Tenant, Namespace: p.Namespace, Label: p.Network}, cfg.DefaultVPC)
}

// alwaysAddressed refuses an interface in a VPC without addresses.
func alwaysAddressed(what string, one annotations.Interface) *tenancy.Refusal {
	if one.IP.Mode == annotations.AddressNone || one.IP6.Mode == annotations.AddressNone {
		return invalid(
			"every interface in %s has its addresses: write \"dynamic\" or an address instead of \"none\", or omit the key",
			what,
		)
	}
	return nil
}
