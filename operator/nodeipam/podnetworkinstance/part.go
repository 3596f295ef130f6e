// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package podnetworkinstance

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/ipfamily"
	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/nodeipam"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// part describes the reservations of an instance in one PodNetwork, and what it lacks there.
// Several interfaces may use one PodNetwork.
type part struct {
	network string
	// size is the number of addresses to reserve, with fixed among them.
	size  int
	fixed []netip.Addr
	// subnet and most come from the PodNetwork; subnet is nil if the PodNetwork can't be used.
	subnet *store.Subnet
	most   int
	// no is why the part can't be reserved, nil for nothing.
	no *refusal
	// spared: the reservations stay although the part can't be used now.
	spared bool
	// had is the number of addresses before this decision. elsewhere is the number of addresses
	// that are kept outside of the subnet.
	had, elsewhere int
	kept           []netip.Addr
	// room is how many free addresses that are not fixed may be kept.
	room  int
	fresh []netip.Addr
}

// partsOf lists the parts of an instance, with the reservations in each.
func partsOf(tx store.ReadTx, row *nodeipam.Instance) []*part {
	var parts []*part
	for _, one := range row.Interfaces {
		i := slices.IndexFunc(parts, func(p *part) bool { return p.network == one.PodNetwork })
		if i < 0 {
			i, parts = len(parts), append(parts, &part{network: one.PodNetwork})
		}
		parts[i].size += one.Reserve
		if one.IP.IsValid() && one.Reserve > 0 && !slices.Contains(parts[i].fixed, one.IP) {
			parts[i].fixed = append(parts[i].fixed, one.IP)
		}
	}
	for _, p := range parts {
		p.find(tx, row)
		p.measure(tx, row)
	}
	return parts
}

// find finds the subnet of a part, or sets the reason why the part has no subnet.
func (p *part) find(tx store.ReadTx, row *nodeipam.Instance) {
	network := nodeipam.ServingPodNetwork(tx, p.network)
	namespace := store.GetNamespace(tx, row.Namespace)
	if network != nil && network.Ready && !network.Deleting && namespace != nil {
		p.subnet, p.most = ipam.SubnetNamed(tx, network.VPC, network.Subnet), network.MaxReserved
	}
	if p.subnet == nil {
		p.spared = true
		p.no = refuse(multitenancyv1alpha1.InstancePodNetworkNotReady, v1alpha1.PodNetworkNotReadyReason, fmt.Sprintf(
			"there is no PodNetwork %q: create it, or make another PodNetworkInstance", p.network))
		if network != nil {
			p.no.Message = fmt.Sprintf("PodNetwork %q is not Ready: see `%s`", p.network, network.Describe())
		}
		return
	}
	if vpc := store.GetVPC(tx, network.VPC); vpc == nil || !tenancy.Allows(vpc, namespace.Tenant) {
		p.subnet = nil
		p.no = refuse(multitenancyv1alpha1.InstanceReservationError, v1alpha1.TenantNotAllowedReason, fmt.Sprintf(
			"VPC %q of PodNetwork %q does not allow tenant %q: ask the cluster's operator to add it to spec.allowedTenants",
			network.VPC,
			p.network,
			namespace.Tenant,
		))
	}
}

// measure counts the addresses of a part, and finds how many of them can stay.
func (p *part) measure(tx store.ReadTx, row *nodeipam.Instance) {
	p.room = p.size
	for _, reserved := range row.Reserved {
		if reserved.PodNetwork != p.network {
			continue
		}
		p.had += len(reserved.IPs)
		for _, ip := range reserved.IPs {
			if inside := p.inside(reserved, ip); inside &&
				(useOf(tx, row, reserved.VPC, ip) == held || slices.Contains(p.fixed, ip)) {
				p.room--
			}
		}
	}
	// Fixed addresses that are still to be reserved need room too.
	for _, ip := range p.fixed {
		if !p.reserves(row, ip) {
			p.room--
		}
	}
}

func (p *part) reserves(row *nodeipam.Instance, ip netip.Addr) bool {
	return slices.ContainsFunc(row.Reserved, func(reserved nodeipam.Reserved) bool {
		return reserved.PodNetwork == p.network && p.inside(reserved, ip) && slices.Contains(reserved.IPs, ip)
	})
}

// inside reports whether a reserved address is in the subnet.
func (p *part) inside(reserved nodeipam.Reserved, ip netip.Addr) bool {
	return p.subnet != nil && reserved.VPC == p.subnet.VPC &&
		slices.ContainsFunc(p.subnet.Prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(ip) })
}

// keeps decides about a reserved address, and notes an address that is kept. It is called once for
// each address, in the order of the status.
func (p *part) keeps(tx store.ReadTx, row *nodeipam.Instance, reserved nodeipam.Reserved, ip netip.Addr) bool {
	inside, use := p.inside(reserved, ip), useOf(tx, row, reserved.VPC, ip)
	stays := use == held || use == free && p.spared
	if use == free && inside && ipam.Reservable(tx, p.subnet, row.Namespace+"/"+row.Name, ip) == nil {
		if slices.Contains(p.fixed, ip) {
			stays = true
		} else if p.room > 0 {
			stays = true
			p.room--
		}
	}
	switch {
	case stays && inside:
		p.kept = append(p.kept, ip)
	case stays:
		p.elsewhere++
	}
	return stays
}

// lacks is how many addresses are to be reserved.
func (p *part) lacks() int {
	if p.subnet == nil {
		return 0
	}
	return max(p.size-len(p.kept), 0)
}

// reserve chooses the missing addresses of the parts of an instance, for all of them or none: with
// a half each, two instances would wait for each other. It reports whether it chose any.
func reserve(tx store.ReadTx, row *nodeipam.Instance, parts []*part, settled bool) bool {
	taken := map[place]bool{}
	chosen, refused := 0, false
	for _, p := range parts {
		if p.no == nil && p.lacks() > 0 {
			p.no = p.choose(tx, row, taken)
		}
		chosen, refused = chosen+len(p.fresh), refused || p.no != nil
	}
	if refused || !settled {
		for _, p := range parts {
			p.fresh = nil
		}
		return false
	}
	return chosen > 0
}

// place is an address in a VPC.
type place struct {
	vpc string
	ip  netip.Addr
}

// choose chooses the missing addresses of a part. taken has the addresses that other parts have
// chosen.
func (p *part) choose(tx store.ReadTx, row *nodeipam.Instance, taken map[place]bool) *refusal {
	if others := nodeipam.CountReserved(tx, p.network) - p.had; others+p.elsewhere+p.size > p.most {
		return refuse(multitenancyv1alpha1.InstanceReservationError, v1alpha1.ReservationLimitReason, fmt.Sprintf(
			"PodNetwork %q allows %d reserved addresses for all instances together, and %d more are too many: reserve fewer, or raise its spec.maxReservedIPs",
			p.network,
			p.most,
			p.lacks(),
		))
	}
	for _, ip := range p.fixed {
		if slices.Contains(p.kept, ip) {
			continue
		}
		if err := ipam.Reservable(tx, p.subnet, row.Namespace+"/"+row.Name, ip); err != nil {
			return unreservable(p.network, err)
		}
		if taken[place{p.subnet.VPC, ip}] {
			return refuse(
				multitenancyv1alpha1.InstanceReservationError,
				v1alpha1.InvalidReason,
				fmt.Sprintf("two interfaces have the ipConstraint %s: leave one out", ip),
			)
		}
		p.take(ip, taken)
	}
	missing := p.lacks() - len(p.fresh)
	found := ipam.Reserve(tx, p.subnet, reservedFamily(p.subnet), missing+len(taken))
	found = slices.DeleteFunc(found, func(ip netip.Addr) bool { return taken[place{p.subnet.VPC, ip}] })
	if len(found) < missing {
		return refuse(multitenancyv1alpha1.InstanceNoAddresses, v1alpha1.SubnetExhaustedReason, fmt.Sprintf(
			"subnet %q of PodNetwork %q has fewer than %d free addresses: reserve fewer, delete pods or instances, or enlarge it",
			p.subnet.Name,
			p.network,
			missing,
		))
	}
	for _, ip := range found[:missing] {
		p.take(ip, taken)
	}
	return nil
}

func (p *part) take(ip netip.Addr, taken map[place]bool) {
	p.fresh, taken[place{p.subnet.VPC, ip}] = append(p.fresh, ip), true
}

func unreservable(network string, err error) *refusal {
	no := refuse(
		multitenancyv1alpha1.InstanceReservationError,
		v1alpha1.InvalidReason,
		fmt.Sprintf("ipConstraint in PodNetwork %q: %v", network, err),
	)
	var cause *ipam.Error
	if errors.As(err, &cause) {
		no.Reason = cause.Reason
	}
	return no
}

// reservedFamily returns the family of the addresses that an instance reserves: IPv4 where the
// subnet has it.
func reservedFamily(subnet *store.Subnet) ipfamily.Family {
	if slices.ContainsFunc(subnet.Prefixes, func(prefix netip.Prefix) bool { return prefix.Addr().Is4() }) {
		return ipfamily.IPv4
	}
	return ipfamily.IPv6
}
