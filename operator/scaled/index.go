// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package scaled

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// index finds Services by the objects that their verdicts depend on: by the addresses that their
// slices name, and whether they are wide (services.IsWide).
type index struct {
	mu     sync.Mutex
	named  map[types.NamespacedName][]netip.Addr
	naming map[netip.Addr]map[types.NamespacedName]bool
	wide   map[types.NamespacedName]bool
}

func newIndex() *index {
	return &index{
		named: map[types.NamespacedName][]netip.Addr{}, naming: map[netip.Addr]map[types.NamespacedName]bool{},
		wide: map[types.NamespacedName]bool{},
	}
}

// put replaces the index entries of a Service.
func (x *index) put(name types.NamespacedName, named []netip.Addr, wide bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ip := range x.named[name] {
		if delete(x.naming[ip], name); len(x.naming[ip]) == 0 {
			delete(x.naming, ip)
		}
	}
	delete(x.named, name)
	delete(x.wide, name)
	for _, ip := range named {
		if x.naming[ip] == nil {
			x.naming[ip] = map[types.NamespacedName]bool{}
		}
		x.naming[ip][name] = true
	}
	if len(named) > 0 {
		x.named[name] = named
	}
	if wide {
		x.wide[name] = true
	}
}

// byAddress returns the Services whose slices name an address, in any order.
func (x *index) byAddress(ip netip.Addr) []types.NamespacedName {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Keys(x.naming[ip]))
}

// allWide returns the Services that are wide, in any order.
func (x *index) allWide() []types.NamespacedName {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Keys(x.wide))
}
