// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package vpcs

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/external"
)

// ExternalPool is the kind of addresses outside of all VPCs that tenants may have.
var ExternalPool = descriptor.Define(&all, descriptor.Description[*v1alpha1.ExternalPool, external.Pool]{
	Name: "ExternalPool", Object: &v1alpha1.ExternalPool{}, List: &v1alpha1.ExternalPoolList{}, Convert: convertExternalPool,
	Table: descriptor.ByName(external.GetPool, external.PutPool, external.DeletePool),
	Verdict: func(row *external.Pool) descriptor.Verdict {
		return descriptor.Verdict{
			ID:      descriptor.ID{Name: row.Name, UID: row.UID},
			Ready:   row.Ready,
			Reason:  row.Reason,
			Message: row.Message,
		}
	},
	Rows:   descriptor.Listed(external.ListPools),
	OnNode: descriptor.Everything,
})

// convertExternalPool converts an ExternalPool. It returns an error where a range can't
// be read, which the schema refuses.
func convertExternalPool(in *v1alpha1.ExternalPool) (*external.Pool, error) {
	if err := values.Known("spec.use", in.Spec.Use, v1alpha1.PoolForLoadBalancers, v1alpha1.PoolForExternalIPs); err != nil {
		return nil, fmt.Errorf("convert ExternalPool %s: %w", in.Name, err)
	}
	row := &external.Pool{
		Meta:           values.Meta(in),
		Name:           in.Name,
		AllowedTenants: slices.Clone(in.Spec.AllowedTenants),
		ForExternalIPs: in.Spec.Use == v1alpha1.PoolForExternalIPs,
	}
	for _, text := range in.Spec.CIDRs {
		r, err := parseRange(text)
		if err != nil {
			return nil, fmt.Errorf("convert ExternalPool %s: %w", in.Name, err)
		}
		row.Ranges = append(row.Ranges, r)
	}
	row.Ready, row.Reason, row.Message = values.Readiness(in.Status.Conditions)
	return row, nil
}

// ExternalAddress is the kind of an address of an ExternalPool that a Service holds.
var ExternalAddress = descriptor.Define(&all, descriptor.Description[*v1alpha1.ExternalAddress, external.Address]{
	Name: "ExternalAddress", Object: &v1alpha1.ExternalAddress{}, List: &v1alpha1.ExternalAddressList{}, Convert: convertExternalAddress,
	Table:  byIP(external.GetAddress, external.PutAddress, external.DeleteAddress),
	OnNode: descriptor.Everything,
})

// byIP returns a table whose rows are found by the IP in the object's name. Validation ties the
// IP to the name. A name with another text has no row.
func byIP[R any](
	get func(store.ReadTx, netip.Addr) *R,
	put func(store.Tx, *R) error,
	remove func(store.Tx, netip.Addr, string) bool,
) descriptor.Table[R] {
	ip := func(id descriptor.ID) netip.Addr {
		ip, _ := netip.ParseAddr(strings.ReplaceAll(id.Name, "-", ":"))
		return ip
	}
	return descriptor.Table[R]{
		Get:    func(tx store.ReadTx, id descriptor.ID) *R { return get(tx, ip(id)) },
		Put:    put,
		Remove: func(tx store.Tx, id descriptor.ID) { remove(tx, ip(id), id.UID) },
	}
}

// convertExternalAddress converts an ExternalAddress. It returns an error where the IP
// can't be read, which the schema refuses.
func convertExternalAddress(in *v1alpha1.ExternalAddress) (*external.Address, error) {
	ip, err := values.Addr(in.Spec.IP)
	if err != nil {
		return nil, fmt.Errorf("convert ExternalAddress %s: %w", in.Name, err)
	}
	return &external.Address{
		Meta: values.Meta(in),
		IP:   ip,
		Pool: in.Spec.Pool,
		Holder: store.Holder{
			Kind: store.HolderService, Namespace: in.Spec.Service.Namespace, Name: in.Spec.Service.Name,
			UID: in.Spec.Service.UID,
		},
		Node: in.Status.Node,
	}, nil
}

// HostAccess is the kind of tenants' access to nodes.
var HostAccess = descriptor.Define(&all, descriptor.Description[*v1alpha1.HostAccess, external.HostAccess]{
	Name: "HostAccess", Object: &v1alpha1.HostAccess{}, List: &v1alpha1.HostAccessList{}, Convert: convertHostAccess,
	Table: descriptor.ByName(external.GetHostAccess, external.PutHostAccess, external.DeleteHostAccess),
	Verdict: func(row *external.HostAccess) descriptor.Verdict {
		return descriptor.Verdict{
			ID:      descriptor.ID{Name: row.Name, UID: row.UID},
			Ready:   row.Ready,
			Reason:  row.Reason,
			Message: row.Message,
		}
	},
	Rows:   descriptor.Listed(external.ListHostAccesses),
	OnNode: descriptor.Everything,
})

// convertHostAccess converts a HostAccess. It returns an error where a port can't be read,
// which the schema refuses.
func convertHostAccess(in *v1alpha1.HostAccess) (*external.HostAccess, error) {
	row := &external.HostAccess{
		Meta: values.Meta(in), Name: in.Name,
		AllowedTenants: slices.Clone(in.Spec.AllowedTenants), HostNetwork: in.Spec.HostNetwork,
	}
	for _, text := range in.Spec.HostPorts {
		ports, err := hostPortRange(text)
		if err != nil {
			return nil, fmt.Errorf("convert HostAccess %s: %w", in.Name, err)
		}
		row.Ports = append(row.Ports, ports)
	}
	row.Ready, row.Reason, row.Message = values.Readiness(in.Status.Conditions)
	return row, nil
}

func hostPortRange(text string) (external.HostPortRange, error) {
	numbers, protocol, _ := strings.Cut(text, "/")
	first, last, isRange := strings.Cut(numbers, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return external.HostPortRange{}, fmt.Errorf("%s is neither a port nor a range of ports", quote.Text(text))
	}
	to, err := strconv.ParseUint(last, 10, 16)
	if err != nil {
		return external.HostPortRange{}, fmt.Errorf("%s is neither a port nor a range of ports", quote.Text(text))
	}
	return external.HostPortRange{Protocol: protocol, First: uint16(from), Last: uint16(to)}, nil
}
