// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rules/services"
)

// ExternalRequest asks for addresses of a Service outside of every VPC.
type ExternalRequest struct {
	// Tenant that owns the Service.
	Tenant string
	// Pool is the name of the ExternalPool asked for; "" for any that allows the
	// tenant.
	Pool string
	// requested IPs, at most one per family. Families that are not named are chosen.
	IPs []netip.Addr
	// Families are the families of the requested addresses.
	Families Families
	// Holder is the Service.
	Holder store.Holder
	// Exclude are IPs that are taken although the store does not have their claims
	// yet.
	Exclude map[netip.Addr]struct{}
	// Resting has the addresses that were released shortly before Now. It may be
	// nil.
	Resting *Resting
	Now     time.Time
}

// ChooseExternal finds an address of every family of a request, each in the oldest pool with a free
// one. Addresses of the holder are kept. A refusal is an *Error.
func ChooseExternal(tx store.ReadTx, req ExternalRequest) ([]*external.Address, error) {
	rows := external.AddressesByService(tx, req.Holder.UID)
	pools, err := externalPools(tx, &req)
	if err != nil {
		return nil, err
	}
	for _, family := range ipfamily.Both {
		has := func(row *external.Address) bool { return family.Has(row.IP) }
		if !req.Families.has(family) || slices.ContainsFunc(rows, has) {
			continue
		}
		row, err := chooseExternal(tx, pools, family, &req)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// externalPools returns the pools that a request may be served from, the oldest
// first. Pools that do not allow the tenant are left out.
func externalPools(tx store.ReadTx, req *ExternalRequest) ([]*external.Pool, error) {
	var allowed, ready []*external.Pool
	for _, pool := range external.ListPools(tx) {
		if pool.ForExternalIPs || !services.Grants(pool, req.Tenant) || req.Pool != "" && pool.Name != req.Pool {
			continue
		}
		allowed = append(allowed, pool)
		if pool.Ready {
			ready = append(ready, pool)
		}
	}
	switch {
	case len(allowed) == 0 && req.Pool != "":
		return nil, refuse(
			v1alpha1.ExternalPoolNotFoundReason,
			WhenSubnetsChange,
			"no ExternalPool %s for load balancers allows tenant %q: correct the annotation %s, or ask the cluster's operator",
			quote.Text(req.Pool),
			req.Tenant,
			v1alpha1.ExternalPoolAnnotation,
		)
	case len(allowed) == 0:
		return nil, refuse(
			v1alpha1.ExternalPoolNotFoundReason,
			WhenSubnetsChange,
			"no ExternalPool for load balancers allows tenant %q: the cluster's operator can create one, or add the tenant to spec.allowedTenants of one",
			req.Tenant,
		)
	case len(ready) == 0:
		return nil, refuse(v1alpha1.ExternalPoolNotReadyReason, WhenSubnetsChange,
			"ExternalPool %q is not Ready: see its Ready condition", allowed[0].Name)
	}
	return ready, nil
}

func chooseExternal(
	tx store.ReadTx,
	pools []*external.Pool,
	family ipfamily.Family,
	req *ExternalRequest,
) (*external.Address, error) {
	if i := slices.IndexFunc(req.IPs, family.Has); i >= 0 {
		return askedExternal(tx, pools, req.IPs[i], req)
	}
	for _, pool := range pools {
		if ip, ok := freeExternal(tx, pool, family, req); ok {
			return req.row(ip, pool), nil
		}
	}
	return nil, refuse(
		v1alpha1.ExternalPoolExhaustedReason,
		WhenReleased,
		"no ExternalPool that allows tenant %q has a free %s address: delete load balancers, or ask the cluster's operator for a larger pool",
		req.Tenant,
		family,
	)
}

func (req *ExternalRequest) row(ip netip.Addr, pool *external.Pool) *external.Address {
	return &external.Address{IP: ip, Pool: pool.Name, Holder: req.Holder}
}

// askedExternal takes the address that the request names.
func askedExternal(
	tx store.ReadTx,
	pools []*external.Pool,
	ip netip.Addr,
	req *ExternalRequest,
) (*external.Address, error) {
	at := slices.IndexFunc(pools, func(pool *external.Pool) bool { return services.Contains(pool, ip) })
	if at < 0 {
		return nil, refuse(v1alpha1.IPOutsidePoolReason, WhenSubnetsChange,
			"%s is in no ExternalPool that allows tenant %q: use another address, or remove the request", ip, req.Tenant)
	}
	if node := store.NodeWithAddress(tx, ip); node != nil {
		return nil, refuse(
			v1alpha1.IPInUseReason,
			WhenReleased,
			"node %s reports %s as its own: use another address, or remove the request",
			node.Name,
			ip,
		)
	}
	held := external.GetAddress(tx, ip)
	_, excluded := req.Exclude[ip]
	if held != nil || excluded {
		return nil, refuse(
			v1alpha1.IPInUseReason,
			WhenReleased,
			"%s is held by another Service: use another address, or remove the request",
			ip,
		)
	}
	return req.row(ip, pools[at]), nil
}

// freeExternal finds the lowest address of a pool that is free and does not rest,
// else the lowest that is free.
func freeExternal(
	tx store.ReadTx,
	pool *external.Pool,
	family ipfamily.Family,
	req *ExternalRequest,
) (rested netip.Addr, ok bool) {
	nodes := store.NodesByAddress(tx)
	for _, r := range pool.Ranges {
		if !family.Has(r.First) {
			continue
		}
		for ip := r.First; ip.IsValid() && !r.Last.Less(ip); ip = ip.Next() {
			if _, excluded := req.Exclude[ip]; excluded || nodes[ip] != nil || external.GetAddress(tx, ip) != nil {
				continue
			}
			if !req.Resting.Contains("", ip, req.Now) {
				return ip, true
			}
			if !rested.IsValid() {
				rested = ip
			}
		}
	}
	return rested, rested.IsValid()
}
