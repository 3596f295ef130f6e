// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceplan

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/alioth-net/alioth/ebpf/datapath/state"
	"github.com/alioth-net/alioth/store/rules/services"
)

// virtualAddresses has the virtual addresses of the Services of one VPC, or of shared Services.
type virtualAddresses struct {
	// limited reports that services.QuotaOfVPC applies to them.
	limited bool
	// byAge has the Services, the oldest first, and usage their usage together.
	byAge []*servicePlan
	usage services.Usage
	// beyond has the Services that exceed the quota.
	beyond map[*servicePlan]bool
	// having has the Services by their virtual addresses.
	having map[netip.Addr][]*servicePlan
	// stale reports that Services have been replaced. changed has the virtual addresses to
	// assemble again.
	stale   bool
	changed map[netip.Addr]bool
	list    state.VirtualAddresses
}

func newVirtualAddresses() *virtualAddresses {
	return &virtualAddresses{having: map[netip.Addr][]*servicePlan{}, changed: map[netip.Addr]bool{}}
}

// vips returns the virtual addresses of a Service, each once.
func (s *servicePlan) vips() []netip.Addr {
	var list []netip.Addr
	for _, service := range s.services {
		if !slices.Contains(list, service.VIP) {
			list = append(list, service.VIP)
		}
	}
	return list
}

// put adds a Service (n = 1), or removes it (-1).
func (v *virtualAddresses) put(s *servicePlan, n int) {
	v.stale = true
	v.byAge = inOrder(v.byAge, s, n)
	if n > 0 {
		v.usage = v.usage.Plus(s.usage)
	} else {
		v.usage = v.usage.Minus(s.usage)
	}
	for _, vip := range s.vips() {
		put(v.having, vip, s, n)
		v.changed[vip] = true
	}
}

// settle updates the list, and reports whether it changed.
func (v *virtualAddresses) settle(vni uint32) (changed bool) {
	if !v.stale {
		return false
	}
	v.stale = false
	v.fit()
	var changes []state.VirtualChange
	for _, vip := range slices.SortedFunc(maps.Keys(v.changed), netip.Addr.Compare) {
		now := v.assemble(vni, vip)
		if !reflect.DeepEqual(v.list.Get(vip), now) {
			changes = append(changes, state.VirtualChange{IP: vip, Now: now})
		}
	}
	clear(v.changed)
	v.list = v.list.With(changes...)
	return len(changes) > 0
}

// fit finds the youngest Services that exceed the quota. It reads all Services only if the
// quota is exceeded.
func (v *virtualAddresses) fit() {
	last := v.beyond
	v.beyond = nil
	if v.limited && !services.QuotaOfVPC.Holds(v.usage) {
		fitting := services.Fitting(func(yield func(services.Usage) bool) {
			for _, s := range v.byAge {
				if !yield(s.usage) {
					return
				}
			}
		})
		v.beyond = map[*servicePlan]bool{}
		for _, s := range v.byAge[fitting:] {
			v.beyond[s] = true
		}
	}
	for _, both := range [][2]map[*servicePlan]bool{{last, v.beyond}, {v.beyond, last}} {
		for s := range both[0] {
			for _, vip := range s.vips() {
				v.changed[vip] = v.changed[vip] || !both[1][s]
			}
		}
	}
}

// assemble returns a virtual address with its services; nil: no Service has it. If two Services
// have the same port of it, the older one gets it.
func (v *virtualAddresses) assemble(vni uint32, vip netip.Addr) *state.VirtualAddress {
	a := &state.VirtualAddress{VNI: vni, IP: vip}
	for _, s := range slices.SortedFunc(slices.Values(v.having[vip]), byAge) {
		if v.beyond[s] {
			continue
		}
		for _, service := range s.services {
			if service.VIP == vip {
				a.Services = append(a.Services, service)
			}
		}
	}
	if len(a.Services) == 0 {
		return nil
	}
	a.Services = sortServices(a.Services)
	return a
}
