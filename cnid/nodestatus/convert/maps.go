// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"github.com/alioth-net/alioth/cnid/nodestatus"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// Maps converts what the datapath holds, or has to hold.
func Maps(s state.State) nodestatus.Maps {
	return nodestatus.Maps{
		Interfaces: each(s.Interfaces, iface),
		Addresses: each(s.Addresses, func(a state.Address) nodestatus.Address {
			return nodestatus.Address{VNI: a.VNI, IP: a.IP, Kind: uint8(a.Kind), Ifindex: a.Ifindex, Node: a.Node, MAC: nodestatus.MAC(a.MAC)}
		}),
		Subnets:   each(s.Subnets, func(n state.Subnet) nodestatus.Subnet { return nodestatus.Subnet(n) }),
		VPCs:      each(s.VPCs, func(v state.VPC) nodestatus.VPC { return nodestatus.VPC(v) }),
		Nodes:     s.Nodes,
		NodePorts: each(s.NodePorts, func(p state.NodePort) nodestatus.NodePort { return nodestatus.NodePort(p) }),
		Announced: s.Announced,
		Closed: each(s.Closed, func(p state.ClosedPrefix) nodestatus.ClosedPrefix {
			return nodestatus.ClosedPrefix{VNI: p.VNI, Prefix: p.Prefix, Class: uint8(p.Class)}
		}),
		Services:   each(s.Services, service),
		Probes:     each(s.Probes, func(p state.ProbeTarget) nodestatus.Target { return nodestatus.Target(p) }),
		Hooks:      each(s.Hooks, func(h state.HookTarget) nodestatus.Target { return nodestatus.Target(h) }),
		Namespaces: each(s.Namespaces, namespace),
	}
}

func iface(i state.Interface) nodestatus.Interface {
	return nodestatus.Interface{
		Ifindex: i.Ifindex, VNI: i.VNI, Addrs: i.Addrs, MAC: nodestatus.MAC(i.MAC), Shadow4: i.Shadow4, Shadow6: i.Shadow6,
		Gateway4: i.Gateway4, Gateway6: i.Gateway6, Node: i.Node, Netkit: i.Netkit,
	}
}

func service(s state.Service) nodestatus.Service {
	return nodestatus.Service{
		VNI: s.VNI, VIP: s.VIP, Port: s.Port, Proto: s.Proto, Affinity: s.Affinity,
		Backends: each(s.Backends, func(b state.Backend) nodestatus.Backend { return nodestatus.Backend(b) }),
	}
}

func namespace(n state.Namespace) nodestatus.Namespace {
	return nodestatus.Namespace{
		Cookie: n.Cookie, Shared: n.Shared,
		Memberships: each(n.Memberships, func(m state.Membership) nodestatus.Membership { return nodestatus.Membership(m) }),
	}
}

// Programs converts the places where programs are attached.
func Programs(a hook.Attached) nodestatus.Programs {
	return nodestatus.Programs{Filters: each(a.Filters, filter), Links: a.Links}
}

// FiltersOf returns the filters that an interface has to have.
func FiltersOf(i state.Interface) []nodestatus.Filter { return each(hook.FiltersOf(i), filter) }

func filter(f hook.Filter) nodestatus.Filter { return nodestatus.Filter(f) }
