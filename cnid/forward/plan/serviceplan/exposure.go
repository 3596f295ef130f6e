// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceplan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/cnid/forward/netfilter/ruleset"
	"github.com/alioth-net/alioth/ebpf/datapath/state"
)

// frontends has the frontends of all Services.
type frontends struct {
	// claims are the Services that have a frontend, by its key.
	claims map[frontendKey][]*servicePlan
	// changed has the keys to decide again.
	changed map[frontendKey]bool
	// list is never changed: another one replaces it.
	list []*ruleset.Frontend
}

// frontendKey is the part of a packet's headers that selects its frontend.
type frontendKey struct {
	ip       netip.Addr
	protocol uint8
	port     uint16
}

func newFrontends() frontends {
	return frontends{claims: map[frontendKey][]*servicePlan{}, changed: map[frontendKey]bool{}}
}

// put adds the frontends of a Service (n = 1), or removes them (-1).
func (f *frontends) put(s *servicePlan, n int) {
	for _, one := range s.frontends {
		key := frontendKey{one.IP, one.Protocol, one.Port}
		put(f.claims, key, s, n)
		f.changed[key] = true
	}
}

// settle updates the list, and reports whether it changed.
func (f *frontends) settle() (changed bool) {
	if len(f.changed) == 0 {
		return false
	}
	gone, come := map[*ruleset.Frontend]bool{}, []*ruleset.Frontend(nil)
	for key := range f.changed {
		asked := &ruleset.Frontend{IP: key.ip, Protocol: key.protocol, Port: key.port}
		at, found := slices.BinarySearchFunc(f.list, asked, (*ruleset.Frontend).Compare)
		now := f.winner(key, asked)
		if found && now != nil && f.list[at].Equal(now) {
			continue
		}
		if found {
			gone[f.list[at]] = true
		}
		if now != nil {
			come = append(come, now)
		}
	}
	clear(f.changed)
	if len(gone)+len(come) == 0 {
		return false
	}
	slices.SortFunc(come, (*ruleset.Frontend).Compare)
	f.list = merge(f.list, gone, come)
	return true
}

// merge returns a sorted list without the frontends in gone, and with the frontends in come.
func merge(list []*ruleset.Frontend, gone map[*ruleset.Frontend]bool, come []*ruleset.Frontend) []*ruleset.Frontend {
	var all []*ruleset.Frontend
	all = slices.Grow(all, len(list)-len(gone)+len(come))
	for _, f := range list {
		if gone[f] {
			continue
		}
		for len(come) > 0 && come[0].Compare(f) < 0 {
			all, come = append(all, come[0]), come[1:]
		}
		all = append(all, f)
	}
	return append(all, come...)
}

// winner returns the frontend of the oldest Service that claims a key, or nil.
func (f *frontends) winner(key frontendKey, asked *ruleset.Frontend) *ruleset.Frontend {
	claims := f.claims[key]
	if len(claims) == 0 {
		return nil
	}
	s := slices.MinFunc(claims, byAge)
	at, _ := slices.BinarySearchFunc(s.frontends, asked, (*ruleset.Frontend).Compare)
	return s.frontends[at]
}

// healthChecks has the health checks of all Services.
type healthChecks struct {
	// byAge has the Services with a health check, the oldest first.
	byAge []*servicePlan
	stale bool
	// list is never changed: another one replaces it.
	list []HealthCheck
}

func (h *healthChecks) put(s *servicePlan, n int) {
	if s.health != nil {
		h.byAge, h.stale = inOrder(h.byAge, s, n), true
	}
}

// settle updates the list, and reports whether it changed.
func (h *healthChecks) settle() (changed bool) {
	if !h.stale {
		return false
	}
	h.stale = false
	var list []HealthCheck
	for _, s := range h.byAge {
		list = append(list, *s.health)
	}
	if slices.Equal(h.list, list) {
		return false
	}
	h.list = list
	return true
}

// Exposure is the part of a VPC that depends on the clients outside of its Services.
type Exposure struct {
	// Preserves reports that pods of the VPC see the addresses of clients.
	Preserves bool
	// Ports has the ports of nodes that lead to the VPC's Services, if its egress may lead to
	// nodes. A slice is never changed: another one replaces it.
	Ports []state.NodePort
	// preserving counts the Services whose pods see the addresses of clients, ports the
	// Services of each port.
	preserving int
	ports      map[state.NodePort]int
	// stale reports that counts have changed.
	stale bool
}

func (e *Exposure) put(s *servicePlan, n int) {
	if s.preserves {
		e.preserving += n
	}
	for _, port := range s.ports {
		was := e.ports[port]
		e.ports[port] = was + n
		if was+n == 0 {
			delete(e.ports, port)
		}
	}
	e.stale = true
}

// settle updates the exported fields from the counts, and reports whether one changed. The
// ports are the same if their number is, and if each listed port is counted.
func (e *Exposure) settle() (changed bool) {
	if !e.stale {
		return false
	}
	e.stale = false
	preserves := e.preserving > 0
	same := len(e.ports) == len(e.Ports) &&
		!slices.ContainsFunc(e.Ports, func(p state.NodePort) bool { return e.ports[p] == 0 })
	if same && preserves == e.Preserves {
		return false
	}
	e.Preserves = preserves
	if !same {
		e.Ports = slices.SortedFunc(maps.Keys(e.ports), compareNodePorts)
	}
	return true
}

func compareNodePorts(a, b state.NodePort) int {
	return cmp.Or(
		cmp.Compare(a.VNI, b.VNI),
		cmp.Compare(a.Proto, b.Proto),
		cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Family, b.Family),
	)
}
