// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
)

func (m *model) setFamily(l *link, enabled bool) {
	if l.six = enabled; !enabled {
		l.v6 = nil
		m.dropRoutes(func(r document.Route) bool { return r.Interface == l.Name && prefixOf(r).Addr().Is6() })
	}
}

func (l *link) setForwarding(s plan.SetForwarding) {
	forwards := map[string]bool{}
	maps.Copy(forwards, l.forwards)
	forwards[s.Family], l.forwards = s.On, forwards
}

func prefixOf(r document.Route) netip.Prefix { return netip.MustParsePrefix(r.Destination) }

func subnet(a document.Address) netip.Prefix {
	return netip.PrefixFrom(netip.MustParseAddr(a.IP), a.PrefixLength).Masked()
}

func (m *model) addAddress(l *link, a document.Address) error {
	list := &l.v4
	if subnet(a).Addr().Is6() {
		list = &l.v6
		if !l.six {
			return fmt.Errorf("%s: IPv6 is disabled", l.Name)
		}
	}
	if !slices.Contains(*list, a) {
		*list = append(*list, a)
	}
	return nil
}

// removeAddress removes an address, and the secondary ones of its network.
func (m *model) removeAddress(l *link, a document.Address) {
	if subnet(a).Addr().Is6() {
		l.v6 = slices.DeleteFunc(l.v6, func(other document.Address) bool { return other == a })
		m.checkSources()
		return
	}
	first := slices.IndexFunc(l.v4, func(other document.Address) bool { return subnet(other) == subnet(a) })
	primary := first >= 0 && l.v4[first] == a
	l.v4 = slices.DeleteFunc(l.v4, func(other document.Address) bool {
		return other == a || primary && subnet(other) == subnet(a)
	})
	if len(l.v4) == 0 {
		m.dropRoutes(func(r document.Route) bool { return r.Interface == l.Name && prefixOf(r).Addr().Is4() })
	}
	m.checkSources()
}

// checkSources drops routes whose source address is gone.
func (m *model) checkSources() {
	m.dropRoutes(func(r document.Route) bool { return r.Source != "" && !m.hasAddress(r.Source) })
}

func (m *model) hasAddress(ip string) bool {
	for _, l := range m.links {
		if slices.ContainsFunc(append(slices.Clone(l.v4), l.v6...), func(a document.Address) bool { return a.IP == ip }) {
			return true
		}
	}
	return false
}

func (m *model) dropRoutes(which func(document.Route) bool) {
	m.routes = slices.DeleteFunc(m.routes, which)
}

func cmpSame(a, b document.Route) bool {
	return plan.AddRoute{Route: a}.String() == plan.AddRoute{Route: b}.String()
}

func (m *model) addRoute(r document.Route) error {
	key := func(r document.Route) string { return fmt.Sprint(r.Destination, *r.Metric, *r.Table) }
	for _, other := range m.routes {
		if cmpSame(other, r) {
			return nil // package kernel takes it
		}
		if key(other) == key(r) {
			return fmt.Errorf("route %s exists: %v", key(r), other)
		}
	}
	if r.Source != "" && !m.hasAddress(r.Source) {
		return fmt.Errorf("route %s: no such address: %s", key(r), r.Source)
	}
	if r.Type == "" {
		l := m.links[r.Interface]
		if l == nil || !l.up {
			return fmt.Errorf("route %s: %s is not up", key(r), r.Interface)
		}
		if r.Address != "" && !reachable(r.Address, append(slices.Clone(l.v4), l.v6...)) {
			return fmt.Errorf("route %s: %s can't be reached by %s", key(r), r.Address, r.Interface)
		}
		if !l.six && prefixOf(r).Addr().Is6() {
			return fmt.Errorf("route %s: IPv6 is disabled on %s", key(r), r.Interface)
		}
	}
	m.routes = append(m.routes, r)
	return nil
}

func reachable(gateway string, list []document.Address) bool {
	return slices.ContainsFunc(list, func(a document.Address) bool { return subnet(a).Contains(netip.MustParseAddr(gateway)) })
}
