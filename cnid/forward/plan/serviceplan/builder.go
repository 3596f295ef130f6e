// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceplan

import (
	"cmp"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
)

// builder plans single Services from one snapshot.
type builder struct {
	// shared has the Services that every VPC reaches.
	shared map[Ref]bool
	frontendBuilder
}

func newBuilder(tx store.ReadTx, cfg Config, here Here) *builder {
	b := &builder{shared: map[Ref]bool{}, frontendBuilder: newFrontendBuilder(tx, cfg, here)}
	for _, ref := range cfg.SharedServices {
		b.shared[ref] = true
	}
	for _, row := range store.ListSharedServices(tx) {
		b.shared[Ref{row.ServiceNamespace, row.ServiceName}] = true
	}
	return b
}

// service plans one Service; nil: this node has no part of it. A shared Service is translated
// as a shared one in its own VPC too; a Service of a named Network is not shared.
func (b *builder) service(ref Ref) *servicePlan {
	of := b.judged(ref)
	s := &servicePlan{ref: ref}
	if v := of.home; v != nil {
		s.row, s.shared = ageOf(v), v.Shared
		if vpc := b.vpcOf(v); vpc != nil {
			s.vpc, s.inside = v.VPC, !s.shared && b.here.Numbers[v.VPC] != 0
			s.exposed = b.cfg.NodePorts && v.Fronted() && vpc.VNI != 0
		}
	}
	s.outside = b.outside(ref, of)
	if !s.isHere() {
		return nil
	}
	s.named, s.wide = of.named, of.wide
	b.fill(s, of.home)
	return s
}

// fill plans a Service for its own VPC, for every VPC, and for clients outside.
func (b *builder) fill(s *servicePlan, v *services.Verdict) {
	switch {
	case s.shared:
		s.services = b.endpoints(v, 0, v.ClusterIPs)
	case s.inside:
		s.services = b.endpoints(v, b.here.Numbers[s.vpc], v.VIPs())
		s.usage = v.Usage()
	}
	if s.exposed {
		b.expose(s, b.vpcOf(v), v)
	}
}

// vpcOf returns the VPC of a Service: the row or, on a node that does not follow the VPC, the
// fields that the operator has written. Nil: neither exists, or the verdict is about an earlier
// or later VPC of the name.
func (b *builder) vpcOf(v *services.Verdict) *store.VPC {
	row := store.GetVPC(b.tx, v.VPC)
	switch {
	case row != nil && row.UID == v.VPCUID:
		return row
	case row == nil && b.cfg.ScaledEndpoints && v.InVPC != nil:
		return &store.VPC{Meta: store.Meta{UID: v.VPCUID}, Name: v.VPC, VNI: v.InVPC.VNI, Prefixes: v.InVPC.Prefixes}
	}
	return nil
}

// ageOf returns a row with the fields that order Services by age.
func ageOf(v *services.Verdict) store.Service {
	return store.Service{Meta: store.Meta{UID: v.ServiceUID, Created: v.Created}, Namespace: v.Namespace, Name: v.Service}
}

// isHere reports whether this node has a part of a Service.
func (s *servicePlan) isHere() bool { return s.shared || s.inside || s.exposed || s.outside != nil }

// outside plans a Service in the networks outside of every VPC that are here.
func (b *builder) outside(ref Ref, of judged) (list []*servicePlan) {
	for _, v := range of.outside {
		number := b.here.Numbers[v.VPC]
		if number == 0 {
			continue
		}
		list = append(list, &servicePlan{
			ref: ref, row: ageOf(v), vpc: v.VPC, inside: true, named: of.named,
			services: b.endpoints(v, number, v.ClusterIPs), usage: v.Usage(),
		})
	}
	return list
}

// endpoints returns the virtual addresses and ports of a Service in a VPC, or in the network of
// a domain, with their backends. A VNI of 0 means every VPC.
func (b *builder) endpoints(v *services.Verdict, vni uint32, vips []netip.Addr) []state.Service {
	var list []state.Service
	for _, vip := range vips {
		for _, port := range v.Ports {
			proto := Protocol(port.Protocol)
			if proto == 0 {
				continue
			}
			service := state.Service{VNI: vni, VIP: vip, Port: port.Port, Proto: proto}
			if vni == 0 {
				service.Backends = everywhere(v, port, ipfamily.Of(vip))
			} else {
				service.Affinity, service.Backends = v.Affinity, b.backends(v, port, ipfamily.Of(vip))
				service.LeftOut = v.LeftOut && len(service.Backends) == 0
			}
			list = append(list, service)
		}
	}
	return list
}

// backends returns the backends of a Service in a VPC, or in the network of a domain.
func (b *builder) backends(v *services.Verdict, port store.ServicePort, family ipfamily.Family) (list []state.Backend) {
	for _, backend := range v.Reached(b.tx, b.cfg.Node, port, family) {
		list = append(list, state.Backend{IP: backend.Addr(), Port: backend.Port(), Outside: backend.Outside})
	}
	return list
}

// everywhere returns the backends of a shared Service. All nodes list them alike.
func everywhere(v *services.Verdict, port store.ServicePort, family ipfamily.Family) (list []state.Backend) {
	for _, backend := range v.Everywhere(port, family) {
		list = append(list, state.Backend{IP: backend.Addr(), Port: backend.Port()})
	}
	return list[:min(len(list), state.MaxBackends)]
}

// Protocol returns the number of a protocol that the datapath serves, or 0.
func Protocol(name string) uint8 {
	switch name {
	case "TCP":
		return unix.IPPROTO_TCP
	case "UDP":
		return unix.IPPROTO_UDP
	}
	return 0
}

// sortServices orders services by their keys. Two services have one key only while one takes
// the address of a deleted one.
func sortServices(list []state.Service) []state.Service {
	slices.SortStableFunc(list, compareServices)
	return slices.CompactFunc(list, func(a, b state.Service) bool { return compareServices(a, b) == 0 })
}

func compareServices(a, b state.Service) int {
	return cmp.Or(
		cmp.Compare(a.VNI, b.VNI),
		a.VIP.Compare(b.VIP),
		cmp.Compare(a.Proto, b.Proto),
		cmp.Compare(a.Port, b.Port),
	)
}

// judged has the verdicts about a Service: the operator's, or the node's own.
type judged struct {
	// home is the verdict in the Service's VPC, or without a VPC; nil: the Service does not
	// exist. outside has the verdicts in networks outside of every VPC.
	home    *services.Verdict
	outside []*services.Verdict
	// named has the addresses whose rows may change the verdicts, or their effect here.
	named []netip.Addr
	// wide reports that the verdicts depend on nodes, ranges and tenants too: see
	// services.IsWide.
	wide bool
}

// judged finds the verdicts about a Service: the operator's or, if nodes judge themselves, the
// verdicts that follow from the rows.
func (b *builder) judged(ref Ref) (of judged) {
	if !b.cfg.ScaledEndpoints {
		return b.judge(ref)
	}
	of.home, of.outside = services.FromRows(scaled.ByService(b.tx, ref.Namespace, ref.Name))
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

// judge judges a Service if this node may have a part of it. A node has no part of most
// Services of a cluster.
func (b *builder) judge(ref Ref) (of judged) {
	row := store.GetService(b.tx, ref.Namespace, ref.Name)
	if row == nil {
		return of
	}
	rules := services.Rules{DefaultVPC: b.cfg.DefaultVPC, Knowledge: b, Node: b.cfg.Node}
	of.named = services.Named(b.tx, row)
	of.wide = row.Selectorless && len(of.named) > 0
	vpc := services.VPCOf(b.tx, row, b.cfg.DefaultVPC)
	if b.Shared(row) || b.here.Numbers[vpc] != 0 || b.cfg.NodePorts && vpc != "" && services.IsExposed(row) {
		of.home = services.Judge(b.tx, rules, row)
		of.wide = of.wide || b.here.Numbers[vpc] != 0 && services.IsWide(b.tx, vpc, row, of.named)
	}
	if slices.ContainsFunc(services.Outside(b.tx, row), func(domain string) bool { return b.here.Numbers[domain] != 0 }) {
		of.outside = services.JudgeOutside(b.tx, rules, row)
	}
	return of
}

// Shared implements services.Knowledge.
func (b *builder) Shared(row *store.Service) bool {
	return row.Network == "" && b.shared[Ref{row.Namespace, row.Name}]
}

// Reserved implements services.Knowledge: a node reserves nothing.
func (b *builder) Reserved(*store.Service) bool { return false }

// Partial implements services.Knowledge. This node has all Addresses of the VPCs whose packets it
// carries.
func (b *builder) Partial(vpc string) bool { return b.here.Numbers[vpc] == 0 }
