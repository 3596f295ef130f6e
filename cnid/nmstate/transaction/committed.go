// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
	"github.com/alioth-net/alioth/cnid/system/durable"
)

// Committed returns the declarations of all committed transactions' documents together, with their
// resolved values. It has no field that all documents left out: settings that
// a DHCP client or a router has given an interface do not become static at the next boot.
func (m *Manager) Committed() (*document.State, error) { return m.dir.committed() }

// Forget removes the committed state: the next boot applies nothing. The host stays as it
// is. An open transaction is ErrOpen.
func (m *Manager) Forget(ctx context.Context) error {
	return m.locked(ctx, func(r *Record) error {
		if r != nil {
			return ErrOpen
		}
		return durable.Remove(m.dir.path(committedFile))
	})
}

// keep writes a committed state down, unless it is the one that is there: a handler applies
// the same state again and again.
func (f folder) keep(s *document.State) error {
	if now, err := f.committed(); err == nil && reflect.DeepEqual(now, s) {
		return nil
	}
	return f.putCommitted(s)
}

// merged is a committed state with a change.
func merged(committed *document.State, c change) *document.State {
	sum := &document.State{
		Interfaces: declaredInterfaces(committed, c),
		DNS:        declaredResolver(committed.DNS, c.desired.DNS),
	}
	if routes := declaredRoutes(committed, c); len(routes) > 0 {
		sum.Routes = &document.Routes{Config: routes}
	}
	if rules := declaredRules(committed, c); len(rules) > 0 {
		sum.RouteRules = &document.RouteRules{Config: rules}
	}
	return sum
}

// declaredResolver has the lists that the committed state or the desired one declares. Others
// may be of a DHCP client.
func declaredResolver(committed, desired *document.DNS) *document.DNS {
	switch {
	case desired == nil || desired.Config == nil:
		return committed
	case desired.Config.Server == nil && desired.Config.Search == nil && desired.Config.Options == nil:
		return &document.DNS{Config: new(target.MergeResolver(document.Resolver{}, *desired.Config))}
	case committed == nil || committed.Config == nil:
		return &document.DNS{Config: desired.Config}
	}
	sum := *desired.Config
	for _, list := range []struct{ have, want *[]string }{
		{&committed.Config.Server, &sum.Server},
		{&committed.Config.Search, &sum.Search},
		{&committed.Config.Options, &sum.Options},
	} {
		if *list.want == nil {
			*list.want = *list.have
		}
	}
	return &document.DNS{Config: &sum}
}

// declaredInterfaces are those that the committed state or the desired one names, without
// those that go.
func declaredInterfaces(committed *document.State, c change) (list []document.Interface) {
	resolved, declared := byName(c.target.Interfaces), byName(committed.Interfaces)
	for _, want := range c.target.Document.Interfaces {
		if want.State == document.Ignore {
			continue
		}
		i := target.Merge(declared[want.Name], want)
		i.AltNames = document.MergeAltNames(declared[want.Name].AltNames, want.AltNames)
		i.MadeBy = want.MadeBy // A document without it asks for the interface, whoever makes it.
		declared[want.Name] = i
	}
	for name, i := range declared {
		shall, changes := resolved[name]
		// An absent loopback interface stays up, and has no settings.
		if changes && (shall.State == document.Absent || i.State == document.Absent) {
			continue
		}
		if changes {
			i = declaredOf(i, shall)
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b document.Interface) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func byName(list []document.Interface) map[string]document.Interface {
	names := map[string]document.Interface{}
	for _, i := range list {
		names[i.Name] = i
	}
	return names
}

// declaredOf returns a resolved interface with the declared fields alone, and with the fields
// that are needed to make it.
func declaredOf(declared, resolved document.Interface) document.Interface {
	i := target.Only(declared, resolved)
	i.AltNames = declared.AltNames // Others are of udev, which may name another interface so.
	if i.IPv6 != nil && i.IPv6.Autoconf == nil && declared.IPv6 != nil {
		i.IPv6.Autoconf = declared.IPv6.Autoconf // which this change leaves
	}
	// A desired interface without a state is up, also if it is down after a boot.
	i.Type, i.State = resolved.Type, resolved.State
	if declared.State == document.Inactive {
		i.State = declared.State // not Down, which removes a virtual one at the next boot
	}
	if compare.Virtual(i.Type) {
		makeable(&i, resolved)
	}
	return i
}

// makeable adds to an interface what one of its type can't be made without.
func makeable(i *document.Interface, resolved document.Interface) {
	i.Veth, i.VLAN, i.VXLAN = resolved.Veth, resolved.VLAN, resolved.VXLAN
	i.MACVLAN, i.IPVLAN = resolved.MACVLAN, resolved.IPVLAN
	if resolved.VRF != nil {
		i.VRF = &document.VRF{Table: resolved.VRF.Table, Ports: portsOf(i.VRF)}
	}
	if resolved.Bond != nil {
		bond := document.LinkAggregation{}
		if i.Bond != nil {
			bond = *i.Bond
		}
		bond.Mode, i.Bond = resolved.Bond.Mode, &bond
	}
}

// portsOf are the ports that a VRF declares.
func portsOf(v *document.VRF) []string {
	if v == nil {
		return nil
	}
	return v.Ports
}

// declaredRoutes are the committed routes that stay, and the desired ones, also those that
// the host had already.
func declaredRoutes(committed *document.State, c change) []document.Route {
	removed, interfaces := c.removed().Routes, byName(c.target.Interfaces)
	kept := slices.DeleteFunc(slices.Clone(routingOf(committed).Routes), func(route document.Route) bool {
		i, changes := interfaces[route.Interface]
		return changes && i.State != document.Up ||
			slices.ContainsFunc(removed, func(r document.Route) bool { return compare.SameRoute(r, route) })
	})
	for _, want := range routingOf(c.target.Document).Routes {
		kept = slices.DeleteFunc(kept, func(route document.Route) bool {
			switch want.State {
			case document.Ignore:
				return false
			case document.Absent:
				return compare.RouteMatches(want, route)
			default:
				return compare.RouteKey(want) == compare.RouteKey(route)
			}
		})
	}
	for _, want := range routingOf(c.target.Document).Routes {
		if want.State != "" {
			continue
		}
		if want = compare.NormalRoute(want); !slices.ContainsFunc(
			kept,
			func(r document.Route) bool { return compare.SameRoute(r, want) },
		) {
			kept = append(kept, want)
		}
	}
	return kept
}

// declaredRules is declaredRoutes for rules.
func declaredRules(committed *document.State, c change) []document.RouteRule {
	removed := c.removed().Rules
	kept := slices.DeleteFunc(slices.Clone(routingOf(committed).Rules), func(rule document.RouteRule) bool {
		return slices.ContainsFunc(removed, func(r document.RouteRule) bool { return compare.SameRule(r, rule) })
	})
	desired := routingOf(c.target.Document).Rules
	for _, want := range desired {
		if want.State == document.Absent {
			kept = slices.DeleteFunc(kept, func(rule document.RouteRule) bool { return compare.RuleMatches(want, rule) })
		}
	}
	for _, want := range desired {
		if want.State == document.Absent {
			continue
		}
		if want = compare.NormalRule(want); !slices.ContainsFunc(
			kept,
			func(r document.RouteRule) bool { return compare.SameRule(r, want) },
		) {
			kept = append(kept, want)
		}
	}
	return kept
}
