// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/datapath"
	"github.com/alioth-net/alioth/store"
)

// services adds the virtual addresses of the shared services, with those of
// their ready endpoints that have the family of the address.
func (b *nodeBuilder) services() {
	for _, ref := range SharedServices(b.tx, b.in.Config) {
		row := store.GetService(b.tx, ref.Namespace, ref.Name)
		if row == nil || row.Network != "" { // one of a VPC has backends there
			continue
		}
		for _, vip := range row.ClusterIPs {
			for _, port := range row.Ports {
				if proto := protocol(port.Protocol); proto != 0 {
					b.part.Services = append(b.part.Services, datapath.Service{
						VIP: vip, Port: port.Port, Proto: proto, Backends: b.backends(ref, port, vip.Is4()),
					})
				}
			}
		}
	}
}

// SharedServices are those of the configuration and those that SharedServices
// name, each once.
func SharedServices(tx store.ReadTx, cfg Config) []ServiceRef {
	list := slices.Clone(cfg.SharedServices)
	for _, row := range store.ListSharedServices(tx) {
		if ref := (ServiceRef{Namespace: row.ServiceNamespace, Name: row.ServiceName}); !slices.Contains(list, ref) {
			list = append(list, ref)
		}
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

// backends are sorted and occur once, so that all nodes list them alike.
func (b *nodeBuilder) backends(ref ServiceRef, port store.ServicePort, is4 bool) []datapath.Backend {
	var list []datapath.Backend
	for _, slice := range store.EndpointSlicesByService(b.tx, ref.Namespace, ref.Name) {
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
					list = append(list, datapath.Backend{IP: ip, Port: slice.Ports[at].Port})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b datapath.Backend) int {
		return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.Port, b.Port))
	})
	list = slices.Compact(list)
	return list[:min(len(list), datapath.MaxBackends)]
}

// ReservedAddresses are those that the node itself must reach under their real
// meaning: the API server's, by its endpoints and by configuration, and those
// of all nodes, under which pods on the host's network reach each other.
func ReservedAddresses(tx store.ReadTx, cfg Config) []netip.Addr {
	return unique(append(apiServerAddresses(tx, cfg), addressesOf(store.ListNodes(tx)...)...))
}

func apiServerAddresses(tx store.ReadTx, cfg Config) []netip.Addr {
	list := slices.Clone(cfg.Reserved)
	for _, slice := range store.EndpointSlicesByService(tx, cfg.APIServer.Namespace, cfg.APIServer.Name) {
		for _, endpoint := range slice.Endpoints {
			list = append(list, endpoint.Addresses...)
		}
	}
	return list
}

func addressesOf(nodes ...*store.Node) []netip.Addr {
	var list []netip.Addr
	for _, node := range nodes {
		list = append(append(list, node.Addresses...), node.AllAddresses...)
	}
	return list
}
