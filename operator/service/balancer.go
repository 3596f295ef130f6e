// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/services"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// desired is the desired state of a Service as a load balancer.
type desired struct {
	// request is the claim in a VPC, external the one outside; nil for none.
	request  *ipam.Request
	external *ipam.ExternalRequest
	// keep are the addresses that it has and may keep, drop those to release.
	keep, drop holdings
	// refusal is the reason why the Service gets no claim.
	refusal *tenancy.Refusal
}

// holdings are addresses of one Service.
type holdings struct {
	inVPC   []*store.Address
	outside []*external.Address
}

func holdingsOf(tx store.ReadTx, service *store.Service) holdings {
	return holdings{
		inVPC:   store.AddressesByService(tx, service),
		outside: external.AddressesByService(tx, service.UID),
	}
}

// ips returns the IPs that are in the API, IPv4 first.
func (h holdings) ips() []netip.Addr {
	var ips []netip.Addr
	for _, row := range h.inVPC {
		if row.UID != "" && !row.Deleting {
			ips = append(ips, row.IP)
		}
	}
	for _, row := range h.outside {
		if row.UID != "" && !row.Deleting {
			ips = append(ips, row.IP)
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return ips
}

// preferring returns the desired state with requested addresses, if the Service has none yet and
// requests none.
func (w desired) preferring(ips []netip.Addr) desired {
	families := ipam.FamiliesOf(ips)
	if len(w.keep.inVPC)+len(w.keep.outside) > 0 || len(ips) != families.Count() {
		return w
	}
	switch {
	case w.request != nil && len(w.request.IPs) == 0 && families == w.request.Families:
		request := *w.request
		request.IPs, w.request = ips, &request
	case w.external != nil && len(w.external.IPs) == 0 && families == w.external.Families:
		request := *w.external
		request.IPs, w.external = ips, &request
	}
	return w
}

// desiredOf plans the load balancer of a Service.
func desiredOf(tx store.ReadTx, service *store.Service, rules Rules) desired {
	held := holdingsOf(tx, service)
	ns := store.GetNamespace(tx, service.Namespace)
	if service.LoadBalancer == "" {
		return desired{drop: held}
	}
	if ns == nil || service.Deleting {
		return desired{keep: held}
	}
	switch service.LoadBalancer {
	case store.LoadBalancerVPC:
		w := inVPC(tx, service, ns, held.inVPC, rules)
		w.drop.outside = held.outside
		return w
	case store.LoadBalancerExternal:
		w := outside(tx, service, ns, held.outside, rules)
		w.drop.inVPC = held.inVPC
		return w
	}
	return desired{drop: held, refusal: invalid(
		"the annotation %s is %s: it may be %s (the default) or %s",
		v1alpha1.LoadBalancerAnnotation,
		quote.Text(service.LoadBalancer),
		v1alpha1.LoadBalancerVPC,
		v1alpha1.LoadBalancerExternal,
	)}
}

// inVPC plans for a load balancer with addresses in its VPC. While no VPC serves it, it
// keeps addresses of a VPC that its tenant may use.
func inVPC(
	tx store.ReadTx,
	service *store.Service,
	ns *store.Namespace,
	held []*store.Address,
	rules Rules,
) (w desired) {
	if shared(tx, service, rules) {
		w.drop.inVPC = held
		w.refusal = invalid(
			"every VPC shares this Service at its ClusterIPs, so it gets no address in one of them: make another Service for that",
		)
		return w
	}
	target, refusal := tenancy.Resolve(
		tx,
		tenancy.Member{Tenant: ns.Tenant, Namespace: ns.Name, Label: service.Network},
		rules.DefaultVPC,
	)
	fits := func(row *store.Address) bool {
		return target.VPC != nil && row.VPC == target.VPC.Name && tenancy.Allows(target.VPC, ns.Tenant)
	}
	if refusal != nil {
		w.keep.inVPC, w.drop.inVPC = split(held, fits)
		w.refusal = unsaid(refusal, ns.Tenant)
		return w
	}
	request := &ipam.Request{
		VPC:      target.VPC.Name,
		Families: ipam.FamiliesOf(service.ClusterIPs),
		Holder:   service.AsHolder(),
	}
	if request.IPs, w.refusal = askedIPs(service, request.Families); w.refusal != nil {
		w.drop.inVPC = held
		return w
	}
	w.request = request
	w.keep.inVPC, w.drop.inVPC = split(held, func(row *store.Address) bool { return fits(row) && answers(row, request) })
	return w
}

// outside plans for a load balancer with addresses outside of every VPC, which lead
// into its own. While no VPC serves it, it keeps its addresses.
func outside(
	tx store.ReadTx,
	service *store.Service,
	ns *store.Namespace,
	held []*external.Address,
	rules Rules,
) (w desired) {
	request := &ipam.ExternalRequest{
		Tenant: ns.Tenant, Pool: service.AskedPool, Families: ipam.FamiliesOf(service.ClusterIPs), Holder: service.AsHolder(),
	}
	if request.IPs, w.refusal = askedIPs(service, request.Families); w.refusal != nil {
		w.drop.outside = held
		return w
	}
	w.keep.outside, w.drop.outside = split(
		held,
		func(row *external.Address) bool { return given(tx, row, request) && !isSurplus(tx, row, held, request) },
	)
	_, refusal := tenancy.Resolve(
		tx,
		tenancy.Member{Tenant: ns.Tenant, Namespace: ns.Name, Label: service.Network},
		rules.DefaultVPC,
	)
	if refusal != nil && !shared(tx, service, rules) {
		w.refusal = unsaid(refusal, ns.Tenant)
		return w
	}
	w.external = request
	return w
}

// given reports whether an external address matches the request, and its pool still
// allows the tenant.
func given(tx store.ReadTx, row *external.Address, request *ipam.ExternalRequest) bool {
	pool := external.GetPool(tx, row.Pool)
	of := ipam.FamiliesOf([]netip.Addr{row.IP})
	return pool != nil && !pool.ForExternalIPs && services.Grants(pool, request.Tenant) &&
		services.Contains(pool, row.IP) &&
		(request.Pool == "" || request.Pool == row.Pool) &&
		(of.V4 && request.Families.V4 || of.V6 && request.Families.V6) &&
		!slices.ContainsFunc(request.IPs, func(ip netip.Addr) bool { return ip.Is4() == row.IP.Is4() && ip != row.IP })
}

// isSurplus reports whether an older address of its family matches the request too. Two operators
// at once may have claimed one address each. Both release the same one.
func isSurplus(tx store.ReadTx, row *external.Address, held []*external.Address, request *ipam.ExternalRequest) bool {
	return row.UID != "" && slices.ContainsFunc(held, func(other *external.Address) bool {
		order := cmp.Or(other.Created.Compare(row.Created), other.IP.Compare(row.IP))
		return other.UID != "" && !other.Deleting && other.IP.Is4() == row.IP.Is4() && order < 0 && given(tx, other, request)
	})
}

// unsaid omits the refusals that decide reports.
func unsaid(refusal *tenancy.Refusal, tenant string) *tenancy.Refusal {
	if !unconcerned(refusal, tenant) {
		return nil
	}
	return refusal
}

// answers reports whether an address belongs to a set that matches the request.
func answers(row *store.Address, request *ipam.Request) bool {
	return ipam.FamiliesOf(row.Set) == request.Families &&
		!slices.ContainsFunc(request.IPs, func(ip netip.Addr) bool { return !slices.Contains(row.Set, ip) })
}

// askedIPs reads the addresses that a Service requests.
func askedIPs(service *store.Service, families ipam.Families) ([]netip.Addr, *tenancy.Refusal) {
	var ips []netip.Addr
	for text := range strings.SplitSeq(service.AskedIPs, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return nil, invalid(
				"%s in %s or spec.loadBalancerIP is no address",
				quote.Text(text),
				v1alpha1.LoadBalancerIPsAnnotation,
			)
		}
		ip = ip.Unmap()
		of := ipam.FamiliesOf([]netip.Addr{ip})
		if of.V4 && !families.V4 || of.V6 && !families.V6 {
			return nil, invalid(
				"%s is asked for, and the Service has %s only: correct spec.ipFamilies or the address",
				ip,
				families,
			)
		}
		if slices.ContainsFunc(ips, func(other netip.Addr) bool { return other.Is4() == ip.Is4() }) {
			return nil, invalid("more than one %s address is asked for: a Service gets one per family", of)
		}
		ips = append(ips, ip)
	}
	return ips, nil
}

func invalid(format string, args ...any) *tenancy.Refusal {
	return &tenancy.Refusal{Reason: v1alpha1.LoadBalancerInvalidReason, Message: fmt.Sprintf(format, args...)}
}

// split divides addresses by a condition.
func split[R any](rows []R, holds func(R) bool) (yes, no []R) {
	for _, row := range rows {
		if holds(row) {
			yes = append(yes, row)
		} else {
			no = append(no, row)
		}
	}
	return yes, no
}
