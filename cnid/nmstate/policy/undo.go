// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Undo returns the desired state that turns back the changes of a policy that is gone.
//
// removed has the fields that only that policy had (Aggregation.Part), next is the desired state
// without it, and before is the node's state from before the policy was applied first. A field of
// next is never touched. Of all others:
//   - A virtual interface that was not there before becomes absent if Alioth made it.
//   - An interface that was there gets its fields back as they were. One that the policy
//     made absent or down gets all of them. A virtual one that was down becomes inactive, for
//     down would remove it.
//   - A list, a description or a controller that was not there becomes empty, and an
//     alternative name absent.
//   - Where the policy said whether there is DHCP, the family gets its static addresses back: the
//     end of DHCP would keep those of a lease.
//   - Ports get back their addresses, MTU, MAC and controller, which a controller takes.
//   - Routes of interfaces that were ports, absent or down, or lost addresses, come back.
//   - Routes and rules that were not there become absent; those that an absent entry removed
//     come back.
//   - The resolver's configuration becomes what it was, unless next has one.
//
// The result is a share of lowest priority of the next Aggregate. left are the paths of
// fields that stay as they are, because nothing tells what they were.
func Undo(removed, next, before map[string]any) (back map[string]any, left []string, err error) {
	u := undoing{held: map[string]bool{}, above: map[string]bool{}, gone: map[string]bool{}, returned: map[string]bool{}}
	for _, part := range []struct {
		what     string
		document map[string]any
		leaves   *[]leaf
	}{
		{"the removed part", removed, &u.removed},
		{"the next desired state", next, &u.next},
		{"the state before", before, &u.before},
	} {
		if *part.leaves, err = parse(part.document); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", part.what, err)
		}
	}
	u.hold()
	u.interfaces()
	u.entries()
	u.resolver()
	return format(u.back), u.left, nil
}

// undoing is an Undo that is being made.
type undoing struct {
	removed, next, before []leaf
	// held are the paths of next and of the restored settings, and above the paths above them.
	held, above map[string]bool
	// gone are interfaces that become absent, and returned those whose routes the kernel
	// removed meanwhile.
	gone, returned map[string]bool
	back           []leaf
	left           []string
}

func (u *undoing) hold() {
	for _, l := range u.next {
		u.take(l.path)
	}
}

func (u *undoing) take(at path) {
	u.held[at.String()] = true
	for i := 1; i < len(at); i++ {
		u.above[at[:i].String()] = true
	}
}

// free reports whether next leaves a field alone.
func (u *undoing) free(at path) bool {
	for i := 1; i <= len(at); i++ {
		if u.held[at[:i].String()] {
			return false
		}
	}
	return !u.above[at.String()]
}

// set puts a field back, unless next has it.
func (u *undoing) set(at path, value any) {
	if !u.free(at) {
		return
	}
	u.take(at)
	u.back = append(u.back, leaf{path: at, value: value})
}

// byInterface sorts leaves by the interfaces that they are of.
func byInterface(leaves []leaf) map[string][]leaf {
	all := map[string][]leaf{}
	for _, l := range leaves {
		if called, ok := l.path.iface(); ok {
			all[called] = append(all[called], l)
		}
	}
	return all
}

func (u *undoing) interfaces() {
	removed, next, before := byInterface(u.removed), byInterface(u.next), byInterface(u.before)
	for _, called := range slices.Sorted(maps.Keys(removed)) {
		fields, was := removed[called], before[called]
		switch wanted := textOf(fields, state); {
		case was == nil && next[called] == nil:
			u.unmake(called, fields)
		case was != nil && (wanted == absent || wanted == down):
			u.restore(was, writable)
			u.restoreRoutes(was, next[called])
			u.restoreState(was, next[called])
		case wanted != ignore:
			u.restoreFields(fields, was)
			if was != nil && slices.ContainsFunc(fields, ofAddresses) {
				u.restoreRoutes(was, next[called])
			}
			u.restoreState(was, next[called])
		}
	}
	for _, port := range portsOf(u.removed) {
		if !slices.Contains(portsOf(u.next), port) {
			u.restorePort(before[port], next[port])
		}
	}
}

// ofAddresses reports whether a field decides about addresses of an interface: with an address
// the kernel removes routes.
func ofAddresses(l leaf) bool {
	return len(l.path) == 4 && !l.path[3].element && slices.Contains([]string{address, dhcp, "enabled"}, l.path[3].key)
}

// restoreState gives an interface the state that it had. One of next keeps the state of
// next, which is repeated: an owner without a state wants up.
func (u *undoing) restoreState(was, next []leaf) {
	had := textOf(was, state)
	if had == down && virtual(textOf(was, kind)) {
		had = inactive
	}
	if next == nil && (had == up || had == down || had == inactive) {
		u.set(field(was[0].path[:2], state), had)
	}
	at := slices.IndexFunc(next, func(l leaf) bool { return len(l.path) == 3 && l.path[2].key == state })
	again := func(l leaf) bool { return at >= 0 && l.at == next[at].at }
	if at >= 0 && !slices.ContainsFunc(u.back, again) {
		u.back = append(u.back, next[at])
	}
}

// unmake removes an interface that was not there before.
func (u *undoing) unmake(called string, fields []leaf) {
	made, wanted := textOf(fields, kind), textOf(fields, state)
	if wanted == absent || wanted == ignore || textOf(fields, madeBy) == byOthers {
		return
	}
	at := element(path{{key: interfaces}}, called)
	if !virtual(made) {
		// Hardware that came later can't be removed, and what it was before is not known.
		u.left = append(u.left, at.String())
		return
	}
	u.gone[called] = true
	u.set(field(at, kind), made)
	u.set(field(at, state), absent)
	u.set(field(at, madeBy), byAlioth)
}

// virtual reports whether the kernel makes interfaces of a type.
func virtual(kind string) bool {
	return !slices.Contains([]string{"", "ethernet", "loopback", "infiniband", "unknown"}, kind)
}

func textOf(fields []leaf, key string) string {
	for _, l := range fields {
		if len(l.path) == 3 && l.path[2].key == key {
			text, _ := l.value.(string)
			return text
		}
	}
	return ""
}

// writable are fields of an interface that can be set, beside its state.
func writable(key string) bool {
	return !slices.Contains([]string{name, state, "permanent-mac-address", "min-mtu", "max-mtu"}, key)
}

// taken are fields that a port loses to its controller.
func taken(key string) bool {
	return slices.Contains([]string{ipv4, ipv6, "mtu", "mac-address", controller}, key)
}

func (u *undoing) restore(was []leaf, which func(key string) bool) {
	for _, l := range was {
		if which(l.path[2].key) {
			u.set(l.path, l.value)
		}
	}
}

// restorePort restores an interface that has left its controller.
func (u *undoing) restorePort(was, next []leaf) {
	if was == nil || textOf(next, state) == absent || textOf(next, state) == ignore {
		return
	}
	u.restore(was, taken)
	u.restoreRoutes(was, next)
	u.set(field(was[0].path[:2], controller), "")
	u.restoreState(was, next)
}

// restoreRoutes marks an interface that had routes and can have them again.
func (u *undoing) restoreRoutes(was, next []leaf) {
	called := was[0].path[1].key
	wanted := textOf(next, state)
	if textOf(was, state) != down && (wanted == "" || wanted == up) && !slices.Contains(portsOf(u.next), called) {
		u.returned[called] = true
	}
}

// restoreFields restores fields of an interface that stays.
func (u *undoing) restoreFields(fields, was []leaf) {
	for _, l := range fields {
		key := l.path[len(l.path)-1].key
		if l.path[len(l.path)-1].element {
			u.restoreAltName(l, was)
			continue
		}
		if len(l.path) == 3 && slices.Contains([]string{name, kind, state, madeBy, waitIP}, key) {
			continue
		}
		if len(l.path) == 4 && key == dhcp {
			u.restoreFields([]leaf{{path: field(l.path[:3], address), value: []any{}}}, was)
		}
		found := false
		for _, w := range was {
			if below(w.path, l.path) {
				u.set(w.path, w.value)
				found = true
			}
		}
		_, list := l.value.([]any)
		switch {
		case found || !u.free(l.path):
		case list:
			u.set(l.path, []any{})
		case len(l.path) == 3 && (key == controller || key == "description"):
			u.set(l.path, "")
		default:
			u.left = append(u.left, l.at)
		}
	}
}

// restoreAltName removes an alternative name that was not there, and adds one that was.
func (u *undoing) restoreAltName(l leaf, was []leaf) {
	at := slices.IndexFunc(was, func(w leaf) bool { return slices.Equal(w.path, l.path) })
	switch {
	case at >= 0:
		u.set(l.path, was[at].value)
	case !isAbsent(l.value.(map[string]any)):
		u.set(l.path, map[string]any{name: l.path[len(l.path)-1].key, state: absent})
	}
}

// below reports whether a path equals another path, or leads further.
func below(at, top path) bool {
	return len(at) >= len(top) && slices.Equal(at[:len(top)], top)
}

// portsOf are the ports of all controllers, sorted.
func portsOf(leaves []leaf) []string {
	var ports []string
	for _, l := range leaves {
		if _, ok := l.path.iface(); !ok || len(l.path) != 4 || l.path[3].key != "port" {
			continue
		}
		list, _ := l.value.([]any)
		for _, item := range list {
			if object, ok := item.(map[string]any); ok {
				item = object[name]
			}
			if port, ok := item.(string); ok {
				ports = append(ports, port)
			}
		}
	}
	slices.SortFunc(ports, strings.Compare)
	return slices.Compact(ports)
}

// entries turns routes and rules back.
func (u *undoing) entries() {
	for _, l := range u.removed {
		if !l.path.entry() {
			continue
		}
		entry := l.value.(map[string]any)
		if u.gone[deviceOf(l)] {
			continue // the kernel removes it with the interface
		}
		pattern := entry
		if !isAbsent(entry) {
			if u.had(l) || !u.free(l.path) {
				continue
			}
			pattern = maps.Clone(entry)
			pattern[state] = absent
			u.setEntry(l.path[:2], pattern)
		}
		u.restoreEntries(l.path[0].key, pattern)
	}
	for _, w := range u.before {
		if w.path.entry() && u.returned[deviceOf(w)] {
			u.setEntry(w.path[:2], w.value.(map[string]any))
		}
	}
}

// had reports whether an entry was there before.
func (u *undoing) had(l leaf) bool {
	return slices.ContainsFunc(u.before, func(w leaf) bool {
		return w.path.entry() && w.path[0] == l.path[0] && covers(l.value.(map[string]any), w.value.(map[string]any))
	})
}

// restoreEntries brings back what an absent entry removes.
func (u *undoing) restoreEntries(root string, pattern map[string]any) {
	for _, w := range u.before {
		if w.path.entry() && w.path[0].key == root && covers(pattern, w.value.(map[string]any)) {
			u.setEntry(w.path[:2], w.value.(map[string]any))
		}
	}
}

func (u *undoing) setEntry(list path, entry map[string]any) {
	text, _ := canonical(entry) // it was read by parse
	u.set(element(list, label(entry, text)), entry)
}

// resolver turns the configuration of the resolver back, which is replaced as a whole.
func (u *undoing) resolver() {
	if !slices.ContainsFunc(u.removed, ofResolver) || slices.ContainsFunc(u.next, ofResolver) {
		return
	}
	found := false
	for _, w := range u.before {
		if ofResolver(w) {
			u.set(w.path, w.value)
			found = true
		}
	}
	if !found {
		u.set(path{{key: dns}, {key: config}}, map[string]any{})
	}
}
