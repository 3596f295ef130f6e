// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/services"
)

// judged is what a node knows of a Service: the operator's verdicts, or its own.
type judged struct {
	// home is the verdict in its VPC, or that of a Service of no VPC; nil: there is no such
	// Service. outside are those in networks outside of every VPC.
	home    *services.Verdict
	outside []*services.Verdict
	// named are the addresses by which the verdicts, or what they mean here, may change.
	named []netip.Addr
	// wide reports that the verdicts go by nodes, ranges and tenants too: see
	// services.IsWide.
	wide bool
}

// judged finds the verdicts about a Service: those that the operator wrote or, if nodes judge
// themselves, those that follow from the rows.
func (b *serviceBuilder) judged(ref ServiceRef) (of judged) {
	if !b.in.ScaledEndpoints {
		return b.judge(ref)
	}
	of.home, of.outside = services.FromRows(store.ScaledEndpointsByService(b.tx, ref.Namespace, ref.Name))
	if of.home != nil {
		of.named = addressesIn(of.home)
	}
	for _, v := range of.outside {
		of.named = append(of.named, addressesIn(v)...)
	}
	slices.SortFunc(of.named, netip.Addr.Compare)
	of.named = slices.Compact(of.named)
	return of
}

func addressesIn(v *services.Verdict) (list []netip.Addr) {
	for i := range v.Backends {
		list = append(list, v.Backends[i].IP)
	}
	return list
}

// judge judges a Service if this node may have a part of it: of most Services of a cluster it
// has none.
func (b *serviceBuilder) judge(ref ServiceRef) (of judged) {
	row := store.GetService(b.tx, ref.Namespace, ref.Name)
	if row == nil {
		return of
	}
	rules := services.Rules{DefaultVPC: b.in.DefaultVPC, Shared: b.isShared, Partial: b.isPartial, Node: b.in.Node}
	of.named = services.Named(b.tx, row)
	of.wide = row.Selectorless && len(of.named) > 0
	vpc := services.VPCOf(b.tx, row, b.in.DefaultVPC)
	if b.isShared(row) || b.present[vpc] != 0 || b.in.NodePorts && vpc != "" && services.IsExposed(row) {
		of.home = services.Judge(b.tx, rules, row)
		of.wide = of.wide || b.present[vpc] != 0 && services.IsWide(b.tx, vpc, row, of.named)
	}
	if slices.ContainsFunc(services.Outside(b.tx, row), func(domain string) bool { return b.present[domain] != 0 }) {
		of.outside = services.JudgeOutside(b.tx, rules, row)
	}
	return of
}

// isShared reports whether every VPC reaches a Service.
func (b *serviceBuilder) isShared(row *store.Service) bool {
	return row.Network == "" && b.shared[ServiceRef{row.Namespace, row.Name}]
}

// isPartial reports whether this node lacks Addresses of a VPC: it has all of those whose
// packets it carries.
func (b *serviceBuilder) isPartial(vpc string) bool { return b.present[vpc] == 0 }
