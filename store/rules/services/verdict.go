// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/ipfamily"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/scaled"
)

// Verdict is the judgement about a Service in one VPC or network: it lists the backends. A node
// derives its own rows from the verdict and from its own knowledge. Judge makes a verdict from
// Services and slices, FromRows from ScaledEndpoints. It must not be changed.
type Verdict struct {
	scaled.ID
	scaled.Head
	// Backends are ordered by Compare, each once.
	Backends []scaled.Backend
}

// FromRows puts the ScaledEndpoints of one Service together: its verdict in a VPC, or in no VPC,
// and its verdicts in networks outside of every VPC, by domain. A verdict whose head is missing
// is left out. Of several lives of the Service or its VPC the last one counts.
func FromRows(rows []*scaled.Endpoint) (home *Verdict, outside []*Verdict) {
	latest := map[string]*scaled.Endpoint{}
	for _, row := range rows {
		domain := ""
		if store.IsNetworkDomain(row.VPC) {
			domain = row.VPC
		}
		if row.Head != nil && (latest[domain] == nil || compareHeads(latest[domain], row) < 0) {
			latest[domain] = row
		}
	}
	for domain, head := range latest {
		if v := fromParts(head, rows); domain == "" {
			home = v
		} else {
			outside = append(outside, v)
		}
	}
	slices.SortFunc(outside, func(a, b *Verdict) int { return strings.Compare(a.VPC, b.VPC) })
	return home, outside
}

// compareHeads orders the heads of different lives: the last one was written last.
func compareHeads(a, b *scaled.Endpoint) int {
	return cmp.Or(a.Head.Created.Compare(b.Head.Created), a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
}

// fromParts adds the backends of all parts to a head. While backends move between parts,
// two of them have the same.
func fromParts(head *scaled.Endpoint, rows []*scaled.Endpoint) *Verdict {
	v := &Verdict{ID: head.ID, Head: *head.Head}
	for _, row := range rows {
		if row.ID == head.ID {
			v.Backends = append(v.Backends, row.Backends...)
		}
	}
	v.Backends = sorted(v.Backends)
	return v
}

func sorted(list []scaled.Backend) []scaled.Backend {
	slices.SortFunc(list, Compare)
	return slices.CompactFunc(list, func(a, b scaled.Backend) bool { return Compare(a, b) == 0 })
}

// Compare orders backends by address, and backends of one address by all other fields.
func Compare(a, b scaled.Backend) int {
	return cmp.Or(
		a.IP.Compare(
			b.IP,
		),
		strings.Compare(a.Node, b.Node),
		strings.Compare(a.PodUID, b.PodUID),
		compareBools(a.Terminating, b.Terminating),
		compareBools(a.Outside, b.Outside),
		compareBools(a.OnHost, b.OnHost),
		compareBools(a.Listed, b.Listed),
		slices.Compare(a.ForNodes, b.ForNodes),
		slices.Compare(a.ForZones, b.ForZones),
		CompareTargets(a.Targets, b.Targets),
	)
}

// CompareTargets orders lists of targets.
func CompareTargets(a, b []scaled.Target) int {
	return slices.CompareFunc(a, b, func(a, b scaled.Target) int {
		return cmp.Or(strings.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Target, b.Target))
	})
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// VIPs returns the virtual addresses of the Service in its VPC.
func (v *Verdict) VIPs() []netip.Addr { return slices.Concat(v.ClusterIPs, v.LoadBalancerIPs) }

// Usage returns the Service's usage of the quota of its VPC.
func (v *Verdict) Usage() Usage { return Usage{Rows: v.UsedRows, Backends: v.UsedBackends} }

// at yields the backends of a family that serve a port, and where.
func (v *Verdict) at(
	port store.ServicePort,
	family ipfamily.Family,
) func(yield func(netip.AddrPort, *scaled.Backend) bool) {
	return func(yield func(netip.AddrPort, *scaled.Backend) bool) {
		for i := range v.Backends {
			backend := &v.Backends[i]
			target := targetOf(backend, port)
			if target != 0 && family.Has(backend.IP) && !yield(netip.AddrPortFrom(backend.IP, target), backend) {
				return
			}
		}
	}
}

func targetOf(backend *scaled.Backend, port store.ServicePort) uint16 {
	for _, target := range backend.Targets {
		if target.Protocol == port.Protocol && target.Port == port.Port {
			return target.Target
		}
	}
	return 0
}

// isHeld reports whether a pod of the VPC or network holds the address of a backend.
func isHeld(b *scaled.Backend) bool { return !b.Outside && !b.OnHost && !b.Listed }

// Reached returns the targets of connections to one port of the Service from a node: addresses of
// one family, ascending, each once and MaxBackends at most. The targets are the ready backends.
// Without a ready backend they are the backends that are shutting down but serve still. The node
// limits a Service that is NodeLocal to its own backends, and otherwise the ready backends to those
// meant for the node.
func (v *Verdict) Reached(tx store.ReadTx, node string, port store.ServicePort, family ipfamily.Family) []Backend {
	var ready, terminating []candidate
	for addr, backend := range v.at(port, family) {
		one := candidate{Backend{addr, backend.Outside}, backend}
		switch {
		case !isHeld(backend) && !backend.Outside, v.NodeLocal && backend.Node != node:
		case backend.Terminating:
			terminating = append(terminating, one)
		default:
			ready = append(ready, one)
		}
	}
	if len(ready) == 0 {
		return backendsOf(terminating)
	}
	if v.NodeLocal {
		return backendsOf(ready)
	}
	return backendsOf(preferred(tx, ready, node))
}

// Everywhere returns where connections to one port of a Service go that every VPC reaches:
// to all ready endpoints, ascending and each once, of any holder.
func (v *Verdict) Everywhere(port store.ServicePort, family ipfamily.Family) (list []netip.AddrPort) {
	for addr, backend := range v.at(port, family) {
		if !backend.Terminating {
			list = append(list, addr)
		}
	}
	return once(list)
}

// Spread has the targets of connections to a port of a Service that come to a node from outside
// of the VPC.
type Spread struct {
	// Here are the backends on the node: the ready ones. If none is ready, they are the ones that
	// are shutting down but serve still. Ascending, each once.
	Here []netip.AddrPort
	// Ready reports that the backends of Here are ready.
	Ready bool
	// Also are the backends of Here that share connections with Elsewhere where all nodes count.
	// It is empty if they shut down while others are ready.
	Also []netip.AddrPort
	// Elsewhere is the number of backends of each other node.
	Elsewhere map[string]int
}

// Spread returns the backends for connections to a port of the Service from a node, for
// addresses of one family. Of a pod on the network of a node only that node itself knows
// whether it is there.
func (v *Verdict) Spread(tx store.ReadTx, node string, port store.ServicePort, family ipfamily.Family) Spread {
	var ready, leavingHere []netip.AddrPort
	elsewhere, leaving := map[netip.AddrPort]string{}, map[netip.AddrPort]string{}
	for addr, b := range v.at(port, family) {
		local, other := v.whose(tx, node, b)
		switch {
		case local && !b.Terminating:
			ready = append(ready, addr)
		case other && !b.Terminating:
			elsewhere[addr] = b.Node
		case local:
			leavingHere = append(leavingHere, addr)
		case other:
			leaving[addr] = b.Node
		}
	}
	s := Spread{Here: once(ready), Ready: len(ready) > 0, Also: once(ready), Elsewhere: countNodes(elsewhere)}
	if len(ready) == 0 {
		s.Here = once(leavingHere)
	}
	if len(ready)+len(elsewhere) == 0 {
		s.Also, s.Elsewhere = s.Here, countNodes(leaving)
	}
	return s
}

// whose reports whether a backend counts on a node, or on another one.
func (v *Verdict) whose(tx store.ReadTx, node string, b *scaled.Backend) (local, other bool) {
	if b.Node == node {
		return isHeld(b) || b.OnHost && isOnHost(tx, v.Namespace, b), false
	}
	return false, b.Node != "" && (isHeld(b) || b.OnHost)
}

func countNodes(backends map[netip.AddrPort]string) map[string]int {
	nodes := map[string]int{}
	for _, node := range backends {
		nodes[node]++
	}
	return nodes
}

// once sorts a list, and leaves each in it once.
func once(list []netip.AddrPort) []netip.AddrPort {
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}
