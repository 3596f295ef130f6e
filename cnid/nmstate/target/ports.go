// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"maps"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// claim has the controller of a port, "" for an interface without one, and the path in the
// document with the claim.
type claim struct{ controller, path string }

// ports makes what controllers say of their ports, and ports of their controllers, one.
func (r *resolution) ports() {
	claims, listed := map[string]claim{}, map[string]bool{}
	for _, name := range r.order {
		if i, ok := r.final[name]; ok && !gone(*i) && lists(r.desired[name]) {
			listed[name] = true
			r.claimList(claims, r.desired[name])
		}
	}
	r.claimSingle(claims, listed)
	for name, i := range r.current {
		// A port that the new list lacks is detached.
		if c := controllerOf(i); listed[c] && claims[name].path == "" {
			claims[name] = claim{path: r.at(c)}
		}
	}
	for _, name := range sorted(claims) {
		r.attach(name, claims[name])
	}
	r.claims = claims
	r.rebuildLists()
}

// checkPortsStay refuses ports that go with what they are made of.
func (r *resolution) checkPortsStay() {
	for _, name := range sorted(r.claims) {
		c := r.claims[name]
		if i, ok := r.final[name]; ok && c.controller != "" && gone(*i) && (!r.named(name) || r.wanted(name)) {
			r.Add(c.path, "%s: it goes with its base or its other end: keep that, or take %s off %s", name, name, c.controller)
		}
	}
}

// lists reports whether a document has a list of ports of an interface.
func lists(i document.Interface) bool {
	return i.Bond != nil && i.Bond.Ports != nil || i.Bridge != nil && i.Bridge.Ports != nil ||
		i.VRF != nil && i.VRF.Ports != nil
}

func controllerOf(i document.Interface) string {
	if i.Controller == nil {
		return ""
	}
	return *i.Controller
}

func (r *resolution) claimList(claims map[string]claim, i document.Interface) {
	format := map[string]string{
		document.Bond: "%s.link-aggregation.port[%d]", document.VRFType: "%s.vrf.port[%d]", document.LinuxBridge: "%s.bridge.port[%d].name",
	}[r.final[i.Name].Type]
	if format == "" {
		return // a section of another type, which was refused
	}
	for n, port := range i.Ports() {
		path := fmt.Sprintf(format, r.at(i.Name), n)
		if other, twice := claims[port]; twice {
			r.Add(path, "%s: it is a port of %s already (%s)", port, other.controller, other.path)
			continue
		}
		claims[port] = claim{i.Name, path}
	}
}

// claimSingle takes what ports say. A controller that lists its ports has no others.
func (r *resolution) claimSingle(claims map[string]claim, listed map[string]bool) {
	for _, name := range r.order {
		i := r.desired[name]
		if i.Controller == nil || i.State == document.Absent {
			continue
		}
		path, controller := r.at(name)+".controller", *i.Controller
		other, claimed := claims[name]
		switch {
		case claimed && other.controller != controller:
			r.Add(path, "%q: %s lists %s as its port (%s)", controller, other.controller, name, other.path)
		case !claimed && listed[controller]:
			r.Add(path, "%q: %s does not list %s as its port (%s)", controller, controller, name, r.at(controller))
		case !claimed:
			claims[name] = claim{controller, path}
		}
	}
}

// attach makes an interface a port, or none.
func (r *resolution) attach(name string, c claim) {
	if r.invalid[name] || r.invalid[c.controller] {
		return
	}
	i := r.touch(name)
	if i == nil || gone(*i) {
		if c.controller != "" {
			r.Add(c.path, "%s: no such interface: declare it, and not as absent", name)
		}
		return
	}
	if c.controller != "" && !r.takesPort(c, *i) {
		return
	}
	was := controllerOf(r.current[name])
	if was != c.controller {
		if former := r.touch(was); former != nil && !r.named(name) {
			i.State = document.Up
		}
		if c.controller != "" && !r.named(name) {
			i.State = document.Up
		}
	}
	r.touch(c.controller)
	i.Controller = &c.controller
}

func (r *resolution) named(name string) bool {
	_, ok := r.desired[name]
	return ok
}

// takesPort checks whether one interface can be a port of another one.
func (r *resolution) takesPort(c claim, port document.Interface) bool {
	controller, ok := r.get(c.controller)
	switch {
	case !ok || gone(controller):
		r.Add(c.path, "%s: no such interface for the port %s: declare it, and not as absent", c.controller, port.Name)
	case !hasPorts(controller.Type):
		r.Add(c.path, "%s: it is of type %s, which has no ports", c.controller, controller.Type)
	case port.Type == document.Loopback || port.Type == document.VRFType || port.Type == controller.Type:
		r.Add(
			c.path,
			"%s is of type %s, and can't be a port of %s, which is of type %s",
			port.Name,
			port.Type,
			c.controller,
			controller.Type,
		)
	default:
		return true
	}
	return false
}

func hasPorts(kind string) bool {
	return kind == document.Bond || kind == document.LinuxBridge || kind == document.VRFType
}

// rebuildLists makes the lists of the controllers that change the lists of all their ports.
func (r *resolution) rebuildLists() {
	members := map[string][]string{}
	for name := range r.current {
		if i, _ := r.get(name); !gone(i) && controllerOf(i) != "" {
			members[controllerOf(i)] = append(members[controllerOf(i)], name)
		}
	}
	for name, i := range r.final {
		if !r.existed(name) && !gone(*i) && controllerOf(*i) != "" {
			members[controllerOf(*i)] = append(members[controllerOf(*i)], name)
		}
	}
	for name, i := range r.final {
		if hasPorts(i.Type) && !gone(*i) {
			slices.Sort(members[name])
			r.rebuild(i, members[name])
		}
	}
}

// rebuild sets the list of ports of a controller. Those that are in its list keep their
// order there.
func (r *resolution) rebuild(i *document.Interface, members []string) {
	names := slices.DeleteFunc(slices.Clone(i.Ports()), func(p string) bool { return !slices.Contains(members, p) })
	names = append([]string{}, names...)
	for _, member := range members {
		if !slices.Contains(names, member) {
			names = append(names, member)
		}
	}
	switch i.Type {
	case document.Bond:
		section := *orNew(i.Bond)
		section.Ports, i.Bond = names, &section
		r.fitPrimary(i)
		r.fitMAC(i)
	case document.VRFType:
		section := *orNew(i.VRF)
		section.Ports, i.VRF = names, &section
	default:
		section := *orNew(i.Bridge)
		section.Ports, i.Bridge = bridgePorts(section.Ports, names), &section
		// Without an MTU of its own the bridge has the least of its ports.
		if !slices.Equal(sortedList(names), sortedList(r.current[i.Name].Ports())) && r.desired[i.Name].MTU == nil {
			i.MTU = nil
		}
	}
}

// fitPrimary drops the options of a bond that name a former port of it.
func (r *resolution) fitPrimary(i *document.Interface) {
	desired := map[string]any{}
	if want := r.desired[i.Name]; want.Bond != nil {
		desired = want.Bond.Options
	}
	i.Bond.Options = maps.Clone(i.Bond.Options)
	for _, option := range []string{"primary", "active_slave"} {
		port := compare.Option(option, i.Bond.Options[option])
		if port == "" || slices.Contains(i.Bond.Ports, port) {
			continue
		}
		if _, chosen := desired[option]; chosen {
			r.Add(r.at(i.Name)+".link-aggregation.options."+option, "%s: it is no port of %s", port, i.Name)
		}
		delete(i.Bond.Options, option)
	}
}

// fitMAC leaves the MAC address of a bond with only new ports to the kernel. The kernel takes the
// address of the first port, unless the bond has an address of its own.
func (r *resolution) fitMAC(i *document.Interface) {
	now := r.current[i.Name]
	stays := func(port string) bool { return slices.Contains(i.Bond.Ports, port) }
	// An address that no hardware of the ports has was set.
	set := func(port string) bool {
		hardware := r.current[port].PermanentMACAddress
		return hardware != "" && hardware != now.MACAddress
	}
	ports := now.Ports()
	if len(i.Bond.Ports) == 0 || slices.ContainsFunc(ports, stays) || r.desired[i.Name].MACAddress != "" {
		return
	}
	if len(ports) == 0 || !all(ports, set) {
		i.MACAddress = ""
	}
}

func all(list []string, is func(string) bool) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !is(s) })
}

func bridgePorts(ports []document.BridgePort, names []string) []document.BridgePort {
	list := make([]document.BridgePort, len(names))
	for n, name := range names {
		list[n].Name = name
		if at := slices.IndexFunc(ports, func(p document.BridgePort) bool { return p.Name == name }); at >= 0 {
			list[n] = ports[at]
		}
	}
	return list
}

func sortedList(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// unfiltered are the bridges whose filter of VLANs the document turns off: it takes VLANs off a
// port, and no port has VLANs afterwards.
func (r *resolution) unfiltered() (bridges []string) {
	for _, name := range r.names() {
		want, now := r.final[name], r.current[name]
		if gone(*want) || want.Bridge == nil || !compare.FiltersVLANs(now.Bridge) {
			continue
		}
		takes := func(port document.BridgePort) bool { return port.VLAN != nil && port.VLAN.Mode == "" }
		keeps := func(port document.BridgePort) bool {
			return port.VLAN != nil && port.VLAN.Mode != "" || port.VLAN == nil && hasVLANs(now, port.Name)
		}
		if slices.ContainsFunc(want.Bridge.Ports, takes) && !slices.ContainsFunc(want.Bridge.Ports, keeps) {
			bridges = append(bridges, name)
		}
	}
	return bridges
}

// hasVLANs reports whether a port of a bridge has VLANs, but for the one of new ports.
func hasVLANs(bridge document.Interface, port string) bool {
	at := slices.IndexFunc(bridge.Bridge.Ports, func(p document.BridgePort) bool { return p.Name == port })
	return at >= 0 && bridge.Bridge.Ports[at].VLAN != nil && !compare.OfNewPort(*bridge.Bridge.Ports[at].VLAN, bridge)
}

// pairs makes the two ends of each pair fit each other. An end may be desired without the
// name of the other one, which names it.
func (r *resolution) pairs() {
	var silent []string
	for _, name := range r.order {
		i, ok := r.final[name]
		switch {
		case !ok || i.Type != document.VethPair || gone(*i):
		case peerOf(*i) == "":
			silent = append(silent, name)
		default:
			r.pairOf(*i)
		}
	}
	for _, name := range silent {
		if peerOf(*r.final[name]) == "" && !r.existed(name) {
			r.Add(r.at(name)+".veth.peer", "missing: making a pair needs the name of the other end")
		}
	}
}

func (r *resolution) pairOf(i document.Interface) {
	name, peer, path := i.Name, peerOf(i), r.at(i.Name)+".veth.peer"
	have, exists := r.current[name]
	switch {
	case exists && peer == peerOf(have):
	case exists && peerOf(have) == "":
		r.Add(path, "%s: the other end of %s is in another network namespace: make %s absent first", peer, name, name)
	case peer == name:
		r.Add(path, "%s: want the name of another interface", peer)
	default:
		r.release(name, peerOf(have))
		r.pair(path, name, peer)
	}
}

func peerOf(i document.Interface) string {
	if i.Veth == nil {
		return ""
	}
	return i.Veth.Peer
}

// pair makes two interfaces the ends of a new pair.
func (r *resolution) pair(path, name, peer string) {
	end, ok := r.final[peer]
	anew := ok && compare.Recreated(r.current[peer], *end)
	switch {
	case r.invalid[peer]:
	case r.existed(peer) && !anew && peerOf(r.current[peer]) != name:
		r.Add(path, "%s: it exists, and is no end of this pair: make it absent first, or choose another name", peer)
	case ok && gone(*end):
		r.Add(path, "%s: it is absent: make it up, or choose another name", peer)
	case ok && peerOf(*end) != "" && peerOf(*end) != name:
		r.Add(path, "%s: it is the other end of %s (%s)", peer, peerOf(*end), r.at(peer))
	case ok:
		end.Veth = &document.Veth{Peer: name}
	default:
		r.final[peer] = &document.Interface{
			Name:  peer,
			Type:  document.VethPair,
			State: document.Up,
			Veth:  &document.Veth{Peer: name},
		}
	}
}

func (r *resolution) existed(name string) bool {
	_, ok := r.current[name]
	return ok
}

// release removes the former peer of an interface that gets a new one.
func (r *resolution) release(name, former string) {
	end, ok := r.get(former)
	if !ok || gone(end) || peerOf(end) != name {
		return
	}
	if r.wanted(former) {
		r.Add(r.at(former)+".veth.peer", "%s: it gets another other end (%s)", name, r.at(name))
		return
	}
	r.final[former] = &document.Interface{Name: former, Type: document.VethPair, State: document.Absent}
}
