// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
	"github.com/alioth-net/alioth/cnid/nmstate/plan"
	"github.com/alioth-net/alioth/cnid/nmstate/target"
)

// link is a device of the model. Its Interface has neither controllers' ports nor addresses.
type link struct {
	document.Interface
	own        string // the MAC address without a bond
	controller string
	port       document.BridgePort
	up, six    bool
	filters    bool // VLANs, as a bridge
	mtu        int
	fixedMTU   bool
	v4, v6     []document.Address
	// forwards are the families that forward.
	forwards map[string]bool
	// automatic are the automatic settings of families.
	automatic map[string]document.IP
}

// model is a small kernel: it executes steps as Linux does, and refuses what that refuses.
type model struct {
	links  map[string]*link
	routes []document.Route
	rules  []document.RouteRule
	// resolver is nil for a host without one.
	resolver *document.Resolver
}

func newModel(ethernet ...string) *model {
	m := &model{links: map[string]*link{}}
	for _, name := range ethernet {
		m.links[name] = &link{
			Interface: document.Interface{Name: name, Type: document.Ethernet}, own: macOf(name), six: true, mtu: 1500,
		}
	}
	return m
}

func macOf(name string) string {
	sum := 0
	for _, c := range name {
		sum = sum*31 + int(c)
	}
	return fmt.Sprintf("02:00:00:%02X:%02X:%02X", sum>>16&255, sum>>8&255, sum&255)
}

// show returns the present state, like package kernel.
func (m *model) show() *document.State {
	s := &document.State{Routes: &document.Routes{}, RouteRules: &document.RouteRules{}}
	for _, name := range slices.Sorted(maps.Keys(m.links)) {
		s.Interfaces = append(s.Interfaces, m.shown(m.links[name]))
	}
	s.Routes.Config = append([]document.Route{}, m.routes...)
	slices.SortFunc(s.Routes.Config, func(a, b document.Route) int { return cmpText(plan.AddRoute{Route: a}, plan.AddRoute{Route: b}) })
	s.RouteRules.Config = append([]document.RouteRule{}, m.rules...)
	slices.SortFunc(s.RouteRules.Config, func(a, b document.RouteRule) int { return cmpText(plan.AddRule{Rule: a}, plan.AddRule{Rule: b}) })
	if m.resolver != nil {
		s.DNS = &document.DNS{Running: m.resolver, Config: m.resolver}
	}
	return s
}

func cmpText(a, b fmt.Stringer) int {
	if a.String() < b.String() {
		return -1
	}
	return 1
}

func (m *model) shown(l *link) document.Interface {
	i := l.Interface
	if i.AltNames = slices.Clone(i.AltNames); len(i.AltNames) == 0 {
		i.AltNames = nil
	}
	i.State = document.Down
	if l.up {
		i.State = document.Up
	}
	i.MACAddress, i.MTU, i.Controller = m.mac(l), new(l.mtu), new(l.controller)
	i.AcceptAllMACAddresses = new(i.AcceptAllMACAddresses != nil && *i.AcceptAllMACAddresses)
	i.Description = new(text(i.Description))
	i.IPv4 = &document.IP{Enabled: new(len(l.v4) > 0), Forwarding: new(l.forwards[document.FamilyIPv4]), Addresses: inKernelOrder(l.v4)}
	i.IPv6 = &document.IP{Enabled: new(l.six), Forwarding: new(l.forwards[document.FamilyIPv6]), Addresses: inKernelOrder(l.v6)}
	i.IPv4, i.IPv6 = l.withAutomatic(document.FamilyIPv4, i.IPv4), l.withAutomatic(document.FamilyIPv6, i.IPv6)
	ports := m.ports(l.Name)
	switch i.Type {
	case document.Bond:
		i.Bond = &document.LinkAggregation{Mode: l.Bond.Mode, Options: maps.Clone(l.Bond.Options), Ports: ports}
		if primary, ok := i.Bond.Options["primary"]; ok && !slices.Contains(ports, fmt.Sprint(primary)) {
			delete(i.Bond.Options, "primary")
		}
	case document.VRFType:
		i.VRF = &document.VRF{Table: l.VRF.Table, Ports: ports}
	case document.LinuxBridge:
		i.Bridge = &document.Bridge{Options: l.Bridge.Options, Ports: []document.BridgePort{}}
		for _, port := range ports {
			shown := m.links[port].port
			shown.Name = port
			if l.filters && shown.VLAN == nil {
				shown.VLAN = &document.PortVLAN{Mode: document.PortAccess, Tag: new(1)}
			}
			i.Bridge.Ports = append(i.Bridge.Ports, shown)
		}
	}
	return i
}

// inKernelOrder lists the first address of each network first. The order of others, but
// within their network, means nothing.
func inKernelOrder(list []document.Address) []document.Address {
	if len(list) > 0 && subnet(list[0]).Addr().Is6() {
		return slices.SortedFunc(slices.Values(list), func(a, b document.Address) int { return strings.Compare(a.IP, b.IP) })
	}
	first, others := []document.Address{}, []document.Address{}
	for n, a := range list {
		if slices.ContainsFunc(list[:n], func(other document.Address) bool { return subnet(other) == subnet(a) }) {
			others = append(others, a)
		} else {
			first = append(first, a)
		}
	}
	slices.SortStableFunc(others, func(a, b document.Address) int { return subnet(a).Addr().Compare(subnet(b).Addr()) })
	return append(first, others...)
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// mac returns the address of a device. A port has the address of its bond, and a bond without an
// address of its own has the address of its first port.
func (m *model) mac(l *link) string {
	if c := m.links[l.controller]; c != nil && c.Type == document.Bond {
		return m.mac(c)
	}
	return l.own
}

func (m *model) ports(controller string) []string {
	ports := []string{}
	for name, l := range m.links {
		if controller != "" && l.controller == controller {
			ports = append(ports, name)
		}
	}
	slices.Sort(ports)
	return ports
}

func (m *model) above(base string) []*link {
	var list []*link
	for _, name := range slices.Sorted(maps.Keys(m.links)) {
		if m.links[name].Base() == base {
			list = append(list, m.links[name])
		}
	}
	return list
}

// do executes a step.
func (m *model) do(step plan.Step) error {
	switch s := step.(type) {
	case plan.Delete:
		return m.delete(s.Name)
	case plan.Create:
		return m.create(s.Interface)
	case plan.Change:
		return m.change(s.Interface)
	case plan.Enslave:
		return m.enslave(s)
	case plan.PortChange:
		return m.changePort(s)
	case plan.Unfilter:
		return m.with(s.Bridge, func(l *link) error {
			l.filters = false
			return nil
		})
	case plan.SetUp:
		return m.with(s.Name, m.setUp)
	case plan.SetDown:
		return m.with(s.Name, func(l *link) error { m.setDown(l); return nil })
	case plan.SetFamily:
		return m.with(s.Name, func(l *link) error { m.setFamily(l, s.Enabled); return nil })
	case plan.SetForwarding:
		return m.with(s.Name, func(l *link) error { l.setForwarding(s); return nil })
	case plan.SetAutomatic:
		return m.with(s.Name, func(l *link) error { m.setAutomatic(l, s); return nil })
	case plan.AddAddress:
		return m.with(s.Name, func(l *link) error { return m.addAddress(l, s.Address) })
	case plan.RemoveAddress:
		return m.with(s.Name, func(l *link) error { m.removeAddress(l, s.Address); return nil })
	case plan.AddRoute:
		return m.addRoute(s.Route)
	case plan.SetResolver:
		m.resolver = &s.Resolver
		return nil
	case plan.SetVFs:
		return m.with(s.Name, func(l *link) error { return l.setVFs(s.SRIOV) })
	case plan.RemoveRoute:
		m.dropRoutes(func(r document.Route) bool { return plan.AddRoute{Route: r}.String() == plan.AddRoute(s).String() })
		return nil
	default:
		return m.doRule(step)
	}
}

func (m *model) doRule(step plan.Step) error {
	same := func(words string) func(document.RouteRule) bool {
		return func(r document.RouteRule) bool { return plan.AddRule{Rule: r}.String() == words }
	}
	switch s := step.(type) {
	case plan.AddRule:
		if slices.ContainsFunc(m.rules, same(s.String())) {
			return fmt.Errorf("%s: it exists", s)
		}
		m.rules = append(m.rules, s.Rule)
	case plan.RemoveRule:
		m.rules = slices.DeleteFunc(m.rules, same(plan.AddRule(s).String()))
	default:
		return fmt.Errorf("%s: unknown to the model", step)
	}
	return nil
}

func (m *model) with(name string, do func(*link) error) error {
	l := m.links[name]
	if l == nil {
		return fmt.Errorf("%s: no such device", name)
	}
	return do(l)
}

func (m *model) delete(name string) error {
	l := m.links[name]
	if l == nil || !compare.Virtual(l.Type) {
		return fmt.Errorf("%s can't be deleted", name)
	}
	m.setDown(l)
	delete(m.links, name)
	for _, port := range m.ports(name) {
		m.release(m.links[port], l)
	}
	for _, above := range m.above(name) {
		_ = m.delete(above.Name)
	}
	if l.Veth != nil && m.links[l.Veth.Peer] != nil {
		return m.delete(l.Veth.Peer)
	}
	if c := m.links[l.controller]; c != nil {
		m.autoMTU(c)
	}
	return nil
}

func (m *model) create(i document.Interface) error {
	if m.links[i.Name] != nil || !compare.Virtual(i.Type) {
		return fmt.Errorf("%s exists, or can't be made", i.Name)
	}
	if i.State != "" || i.Controller != nil || i.IPv4 != nil || i.IPv6 != nil || i.AltNames != nil || len(i.Ports()) > 0 {
		return fmt.Errorf("%s: more than what a new device can have", i.Name)
	}
	l := &link{Interface: i, own: macOf(i.Name), six: true, mtu: 1500}
	l.MTU, l.MACAddress = nil, ""
	if base := i.Base(); base != "" {
		if m.links[base] == nil {
			return fmt.Errorf("%s: no such device: %s", i.Name, base)
		}
		l.mtu = m.links[base].mtu - overhead(i)
	}
	if i.Type == document.Bond && i.Bond.Options["primary"] != nil {
		return fmt.Errorf("%s: a new bond has no ports, and no primary one", i.Name)
	}
	if i.Bond != nil {
		l.Bond = &document.LinkAggregation{Mode: i.Bond.Mode, Options: withDefaults(i.Bond.Options)}
	}
	if i.Type == document.LinuxBridge {
		l.Bridge = &document.Bridge{Options: &document.BridgeOptions{STP: &document.STP{Enabled: new(false)}, MACAgeingTime: new(300)}}
	}
	m.links[i.Name] = l
	if i.Type == document.VethPair {
		if m.links[i.Veth.Peer] != nil {
			return fmt.Errorf("%s: %s exists", i.Name, i.Veth.Peer)
		}
		m.links[i.Veth.Peer] = &link{
			Interface: document.Interface{Name: i.Veth.Peer, Type: i.Type, Veth: &document.Veth{Peer: i.Name}},
			own:       macOf(i.Veth.Peer), six: true, mtu: 1500,
		}
	}
	return m.change(document.Interface{Name: i.Name, Type: i.Type, MTU: i.MTU, MACAddress: i.MACAddress, Bridge: i.Bridge})
}

func withDefaults(options map[string]any) map[string]any {
	all := map[string]any{"miimon": int64(0), "lacp_rate": "slow"}
	maps.Copy(all, options)
	return all
}

func overhead(i document.Interface) int {
	if i.Type == document.VXLANType {
		return 50
	}
	return 0
}

func (m *model) change(i document.Interface) error {
	l := m.links[i.Name]
	if l == nil {
		return fmt.Errorf("change of %s: no such device", i.Name)
	}
	if i.Veth != nil || i.VLAN != nil || i.VXLAN != nil || i.VRF != nil || i.Bond != nil && i.Bond.Mode != "" || i.Base() != "" {
		return fmt.Errorf("%s: a setting that does not change", i.Name)
	}
	if i.Description != nil {
		l.Description = i.Description
	}
	if err := m.changeAltNames(l, i.AltNames); err != nil {
		return err
	}
	if i.AcceptAllMACAddresses != nil {
		l.AcceptAllMACAddresses = i.AcceptAllMACAddresses
	}
	if c := m.links[l.controller]; i.MACAddress != "" && c != nil && c.Type == document.Bond {
		return fmt.Errorf("%s: the MAC address of a port of a bond", i.Name)
	}
	if i.MACAddress != "" {
		l.own = i.MACAddress
	}
	if i.Bond != nil {
		if err := m.changeOptions(l, i.Bond.Options); err != nil {
			return err
		}
	}
	if i.Bridge != nil && i.Bridge.Options != nil {
		merged := target.Merge(document.Interface{Bridge: l.Bridge}, document.Interface{Bridge: i.Bridge})
		l.Bridge = merged.Bridge
	}
	if i.MACVLAN != nil {
		l.MACVLAN = &document.MACVLAN{Base: l.MACVLAN.Base, Mode: i.MACVLAN.Mode}
	}
	if i.MTU == nil {
		return nil
	}
	if base := m.links[l.Base()]; base != nil && *i.MTU > base.mtu-overhead(l.Interface) {
		return fmt.Errorf("%s: MTU %d is more than that of %s", i.Name, *i.MTU, base.Name)
	}
	l.fixedMTU = true
	m.resize(l, *i.MTU)
	return nil
}

// changeAltNames refuses a name that there is, and the removal of one that is not there.
func (m *model) changeAltNames(l *link, list []document.AltName) error {
	for _, a := range list {
		there, is := m.links[a.Name] != nil, document.AltName{Name: a.Name}
		for _, other := range m.links {
			there = there || slices.Contains(other.AltNames, is)
		}
		switch has := slices.Contains(l.AltNames, is); {
		case a.State == document.Absent && !has:
			return fmt.Errorf("%s has no alternative name %s", l.Name, a.Name)
		case a.State != document.Absent && there:
			return fmt.Errorf("%s: the name %s is taken", l.Name, a.Name)
		}
		l.AltNames = document.MergeAltNames(l.AltNames, []document.AltName{a})
	}
	l.AltNames = slices.DeleteFunc(l.AltNames, func(a document.AltName) bool { return a.State == document.Absent })
	return nil
}

func (m *model) changeOptions(l *link, options map[string]any) error {
	for name, value := range options {
		if name == "lacp_rate" && l.up {
			return fmt.Errorf("%s: %s changes while it is down only", l.Name, name)
		}
		if name == "fail_over_mac" {
			return fmt.Errorf("%s: %s does not change", l.Name, name)
		}
		if name == "primary" && !slices.Contains(m.ports(l.Name), fmt.Sprint(value)) {
			return fmt.Errorf("%s: %v is no port", l.Name, value)
		}
		l.Bond.Options[name] = value
	}
	return nil
}

func (m *model) resize(l *link, mtu int) {
	if l.mtu == mtu {
		return
	}
	l.mtu = mtu
	for _, above := range m.above(l.Name) {
		if above.IPVLAN != nil || above.VXLAN == nil && above.mtu > mtu {
			m.resize(above, mtu)
		}
	}
	for _, port := range m.ports(l.Name) {
		if l.Type == document.Bond {
			m.resize(m.links[port], mtu)
		}
	}
	if c := m.links[l.controller]; c != nil {
		m.autoMTU(c)
	}
}

// autoMTU: a bridge without an MTU of its own has the least of its ports.
func (m *model) autoMTU(bridge *link) {
	if bridge.Type != document.LinuxBridge || bridge.fixedMTU {
		return
	}
	least := 1500
	for n, port := range m.ports(bridge.Name) {
		if mtu := m.links[port].mtu; n == 0 || mtu < least {
			least = mtu
		}
	}
	m.resize(bridge, least)
}

func (m *model) enslave(s plan.Enslave) error {
	l, c := m.links[s.Port], m.links[s.Controller]
	if l == nil {
		return fmt.Errorf("%s: no such device", s.Port)
	}
	if s.Controller == "" {
		if l.controller == "" || m.links[l.controller].Type != s.Type {
			return fmt.Errorf("%s: %s has no controller of type %s", s, s.Port, s.Type)
		}
		m.release(l, m.links[l.controller])
		return nil
	}
	if c == nil || l.controller != "" || c.Type != s.Type {
		return fmt.Errorf("%s: no such controller, or %s is a port of %q", s, s.Port, l.controller)
	}
	if c.Type == document.Bond && l.up {
		return fmt.Errorf("%s: the port of a bond has to be down", s)
	}
	if c.Type == document.Bond && len(m.ports(c.Name)) == 0 && c.own == macOf(c.Name) {
		c.own = l.own
	}
	l.controller, l.port = c.Name, document.BridgePort{Hairpin: new(false), PathCost: new(100), Priority: new(32)}
	switch c.Type {
	case document.Bond:
		m.resize(l, c.mtu)
		return m.setUp(l)
	case document.VRFType:
		m.cycle(l)
	default:
		m.autoMTU(c)
	}
	return nil
}

func (m *model) setUp(l *link) error {
	if base := m.links[l.Base()]; l.VLAN != nil && !base.up {
		return fmt.Errorf("%s: %s is down", l.Name, base.Name)
	}
	l.up = true
	for _, above := range m.above(l.Name) {
		if above.VLAN != nil {
			_ = m.setUp(above)
		}
	}
	return nil
}

func (m *model) setDown(l *link) {
	if !l.up {
		return
	}
	l.up, l.v6 = false, nil
	m.dropRoutes(func(r document.Route) bool { return r.Interface == l.Name })
	for _, above := range m.above(l.Name) {
		if above.VLAN != nil {
			m.setDown(above)
		}
	}
	m.checkSources()
}
