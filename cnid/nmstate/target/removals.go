// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// removals removes what cannot be there without interfaces that go, and takes down what
// cannot be up without those that go down.
func (r *resolution) removals() {
	ports := map[string][]string{}
	for name, i := range r.current {
		if c := controllerOf(i); c != "" {
			ports[c] = append(ports[c], name)
		}
	}
	derived := r.derived()
	queue := r.names()
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		i := *r.final[name]
		switch {
		case gone(i):
			queue = append(queue, r.removeDerived(name, derived[name])...)
			queue = append(queue, r.removePeer(name)...)
			r.detach(name, ports[name])
		case i.State != document.Up:
			queue = append(queue, r.stopVLANs(name, derived[name])...)
		}
	}
}

// derived returns the interfaces that shall be or are derived from one, by its name.
func (r *resolution) derived() map[string][]string {
	derived := map[string][]string{}
	for base, names := range r.above {
		derived[base] = sortedList(names)
	}
	for _, name := range r.names() {
		if base := r.final[name].Base(); base != "" && r.current[name].Base() != base {
			derived[base] = append(derived[base], name)
		}
	}
	return derived
}

func (r *resolution) removeDerived(base string, derived []string) (removed []string) {
	for _, name := range derived {
		i, _ := r.get(name)
		if gone(i) || i.Base() != base || r.invalid[name] {
			continue
		}
		if r.wanted(name) {
			r.Add(r.basePath(i), "%s: it is absent or down: make %s absent too, or keep %s", base, name, base)
			continue
		}
		r.final[name] = &document.Interface{Name: name, Type: i.Type, State: document.Absent}
		removed = append(removed, name)
	}
	return removed
}

// basePath returns the path of the field that has an interface's base.
func (r *resolution) basePath(i document.Interface) string {
	section := map[string]string{
		document.VLANType: "vlan", document.VXLANType: "vxlan", document.MACVLANType: "mac-vlan", document.IPVLANType: "ipvlan",
	}[i.Type]
	return r.at(i.Name) + "." + section + ".base-iface"
}

// removePeer removes the other end of a pair, which the kernel does.
func (r *resolution) removePeer(name string) []string {
	peer := peerOf(r.current[name])
	i, ok := r.get(peer)
	if !ok || gone(i) || peerOf(i) != name || r.invalid[peer] {
		return nil
	}
	if r.wanted(peer) {
		r.Add(r.at(peer), "%s is up, and its other end %s is absent or down: make both absent, or neither", peer, name)
		return nil
	}
	r.final[peer] = &document.Interface{Name: peer, Type: document.VethPair, State: document.Absent}
	return []string{peer}
}

// detach detaches the ports of a controller that goes.
func (r *resolution) detach(controller string, ports []string) {
	for _, name := range ports {
		if i := r.touch(name); !gone(*i) && controllerOf(*i) == controller {
			i.Controller = new("")
		}
	}
}

// stopVLANs takes down VLANs of an interface that goes down, which the kernel does.
func (r *resolution) stopVLANs(base string, derived []string) (stopped []string) {
	for _, name := range derived {
		i, _ := r.get(name)
		if i.Type != document.VLANType || gone(i) || i.Base() != base || i.State == document.Down || r.invalid[name] {
			continue
		}
		if r.wanted(name) {
			r.Add(r.basePath(i), "%s: it is down: make %s absent too, or %s up", base, name, base)
			continue
		}
		r.touch(name).State = document.Down
		stopped = append(stopped, name)
	}
	return stopped
}

// followers adds interfaces to the target that change together with a changing interface, so that
// a restored state has them too. They are the interfaces derived from one that is made anew, that
// starts or stops, or that gets another MTU or another controller. They are also the ports, the
// controller and the other end of one that is made anew, and the controllers that lose a port.
func (r *resolution) followers() {
	queue := r.names()
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		now, exists := r.current[name]
		want := *r.final[name]
		if !exists || r.invalid[name] {
			continue
		}
		moves := controllerOf(want) != controllerOf(now)
		if gone(want) || moves {
			queue = append(queue, r.follow([]string{controllerOf(now)})...)
		}
		if !gone(want) {
			queue = append(queue, r.followersOf(now, want, moves)...)
		}
	}
}

// followersOf takes into the target what changes with one interface.
func (r *resolution) followersOf(now, want document.Interface, moves bool) (more []string) {
	anew, resized := compare.Recreated(now, want) || r.onNewBase(want), compare.Differs(now.MTU, want.MTU)
	if anew || now.Type == document.Bond && resized {
		more = r.follow(append(r.portsOf(now.Name), peerOf(want), controllerOf(now)))
	}
	// A bond that is made anew takes its ports down, and with them the interfaces on top of them.
	// An interface that is set up takes VLANs up, and VLANs that stay down lose addresses.
	starts := now.State == document.Down && want.State == document.Up
	if anew || starts || moves || resized || compare.StopsToChange(now, want) || r.remade(controllerOf(now)) {
		more = append(more, r.follow(r.allAbove(now.Name))...)
		r.fit(now.Name, want.MTU, anew)
	}
	return more
}

// remade reports whether an interface that is has to be made anew.
func (r *resolution) remade(name string) bool {
	want, ok := r.final[name]
	now, exists := r.current[name]
	return ok && exists && compare.Recreated(now, *want)
}

// allAbove returns the interfaces derived from an interface, directly and indirectly.
func (r *resolution) allAbove(name string) (all []string) {
	queue := slices.Clone(r.above[name])
	for len(queue) > 0 && len(all) < len(r.current) {
		all = append(all, queue[0])
		queue = append(queue[1:], r.above[queue[0]]...)
	}
	return all
}

// onNewBase reports whether the base of an interface is made anew, which removes it.
func (r *resolution) onNewBase(i document.Interface) bool {
	for range maxInterfaces {
		base, ok := r.final[i.Base()]
		if !ok {
			return false
		}
		if r.remade(base.Name) {
			return true
		}
		i = *base
	}
	return false
}

func (r *resolution) portsOf(name string) (ports []string) {
	for _, port := range sorted(r.current) {
		if controllerOf(r.current[port]) == name {
			ports = append(ports, port)
		}
	}
	return ports
}

// follow takes interfaces into the target, and returns those that were not in it.
func (r *resolution) follow(names []string) (more []string) {
	for _, name := range names {
		if _, ok := r.final[name]; !ok && r.touch(name) != nil {
			more = append(more, name)
		}
	}
	return more
}

// fit lowers the MTU of interfaces that the document does not name to the MTU of their base, as
// the kernel does. A tunnel keeps its own MTU, except on a base that is made anew.
func (r *resolution) fit(base string, mtu *int, anew bool) {
	for _, name := range r.above[base] {
		i, ok := r.final[name]
		if !ok || r.named(name) || mtu == nil || i.MTU == nil || i.Type == document.VXLANType && !anew {
			continue
		}
		if room := *mtu - headers(*i); *i.MTU > room || i.Type == document.IPVLANType {
			i.MTU = new(room)
		}
	}
}
