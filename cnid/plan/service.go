// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/services"
)

// serviceBuilder plans single Services from one snapshot.
type serviceBuilder struct {
	tx store.ReadTx
	in Input
	// present is servicesPlan.present.
	present map[string]uint32
	// shared are the Services that every VPC reaches.
	shared map[ServiceRef]bool
	frontendBuilder
}

func newServiceBuilder(tx store.ReadTx, in Input, present map[string]uint32, places places) *serviceBuilder {
	b := &serviceBuilder{tx: tx, in: in, present: present, shared: map[ServiceRef]bool{}}
	for _, ref := range in.SharedServices {
		b.shared[ref] = true
	}
	for _, row := range store.ListSharedServices(tx) {
		b.shared[ServiceRef{row.ServiceNamespace, row.ServiceName}] = true
	}
	b.frontendBuilder = newFrontendBuilder(tx, in, places)
	return b
}

// service plans one; nil: this node has no part of it. A shared Service is translated as
// such in its own VPC too; a Service of a named Network is not shared.
func (b *serviceBuilder) service(ref ServiceRef) *servicePlan {
	row := store.GetService(b.tx, ref.Namespace, ref.Name)
	if row == nil {
		return nil
	}
	s := &servicePlan{
		ref: ref, row: store.Service{Meta: store.Meta{UID: row.UID, Created: row.Created}, Namespace: row.Namespace, Name: row.Name},
		vpc: services.VPCOf(b.tx, row, b.in.DefaultVPC), shared: row.Network == "" && b.shared[ref],
	}
	vni := b.present[s.vpc]
	s.inside = !s.shared && vni != 0
	s.exposed = b.in.NodePorts && s.vpc != "" && services.IsExposed(row)
	s.outside = b.outside(s, row)
	if !s.isHere() {
		return nil
	}
	s.named = services.Named(b.tx, row)
	switch {
	case s.shared:
		s.services = b.endpoints(row, s.vpc, 0, row.ClusterIPs)
	case s.inside:
		s.services = b.endpoints(row, s.vpc, vni, services.VIPs(b.tx, s.vpc, row))
		s.usage = services.UsageOf(b.tx, s.vpc, row)
	}
	s.wide = row.Selectorless && len(s.named) > 0 || s.inside && services.IsWide(b.tx, s.vpc, row, s.named)
	if s.exposed {
		b.expose(s, store.GetVPC(b.tx, s.vpc), row)
	}
	return s
}

// isHere reports whether this node has a part of a Service.
func (s *servicePlan) isHere() bool { return s.shared || s.inside || s.exposed || s.outside != nil }

// outside plans a Service in the networks outside of every VPC that are here.
func (b *serviceBuilder) outside(s *servicePlan, row *store.Service) (list []*servicePlan) {
	for _, domain := range services.Outside(b.tx, row) {
		number := b.present[domain]
		if number == 0 {
			continue
		}
		list = append(list, &servicePlan{
			ref: s.ref, row: s.row, vpc: domain, inside: true, named: services.Named(b.tx, row),
			services: b.endpoints(row, domain, number, row.ClusterIPs), usage: services.UsageOf(b.tx, domain, row),
		})
	}
	return list
}

// endpoints are the virtual addresses and ports of a Service in a VPC, or in the network of a
// domain, with their backends.
func (b *serviceBuilder) endpoints(row *store.Service, vpc string, vni uint32, vips []netip.Addr) []state.Service {
	var list []state.Service
	for _, vip := range vips {
		for _, port := range row.Ports {
			proto := protocol(port.Protocol)
			if proto == 0 {
				continue
			}
			service := state.Service{VNI: vni, VIP: vip, Port: port.Port, Proto: proto}
			if vni == 0 {
				service.Backends = readyEndpoints(b.tx, row, port, vip.Is4())
			} else {
				service.Affinity, service.Backends = row.Affinity, b.backends(row, vpc, port, vip.Is4())
			}
			list = append(list, service)
		}
	}
	return list
}

// backends are those of a Service in a VPC, or in the network of a domain.
func (b *serviceBuilder) backends(row *store.Service, vpc string, port store.ServicePort, is4 bool) (list []state.Backend) {
	for _, backend := range services.Backends(b.tx, b.site(vpc), row, port, is4) {
		list = append(list, state.Backend{IP: backend.Addr(), Port: backend.Port(), Outside: backend.Outside})
	}
	return list
}

// protocol returns the number of a protocol that the datapath serves, or 0.
func protocol(name string) uint8 {
	switch name {
	case "TCP":
		return unix.IPPROTO_TCP
	case "UDP":
		return unix.IPPROTO_UDP
	}
	return 0
}

// readyEndpoints are the backends of a shared Service: its ready endpoints, sorted and
// each once, so that all nodes list them alike.
func readyEndpoints(tx store.ReadTx, row *store.Service, port store.ServicePort, is4 bool) []state.Backend {
	var list []state.Backend
	for _, slice := range store.EndpointSlicesByService(tx, row.Namespace, row.Name) {
		at := slices.IndexFunc(slice.Ports, func(p store.ServicePort) bool {
			return p.Name == port.Name && p.Protocol == port.Protocol && p.Port != 0
		})
		if at < 0 {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if !endpoint.Ready {
				continue
			}
			for _, ip := range endpoint.Addresses {
				if ip.Is4() == is4 {
					list = append(list, state.Backend{IP: ip, Port: slice.Ports[at].Port})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b state.Backend) int {
		return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.Port, b.Port))
	})
	list = slices.Compact(list)
	return list[:min(len(list), state.MaxBackends)]
}

// sortServices orders services by their keys. Two of one key can't be, but while one
// takes the address of another that is gone.
func sortServices(list []state.Service) []state.Service {
	slices.SortStableFunc(list, compareServices)
	return slices.CompactFunc(list, func(a, b state.Service) bool { return compareServices(a, b) == 0 })
}

func compareServices(a, b state.Service) int {
	return cmp.Or(cmp.Compare(a.VNI, b.VNI), a.VIP.Compare(b.VIP), cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Port, b.Port))
}
