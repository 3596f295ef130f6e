// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// Parts divide a desired state: nothing in one part depends on another part. Each part has the
// sorted paths of its contents, and no targets: whole interfaces, entries of routes and rules,
// and other sections as a whole. The parts are in the order of their owners. The result is nil
// for one part.
//
// Two things are in one part if
//   - one owner asks for both, also where another owner has the field;
//   - one is a port, a controller, the base or the other end of the other one;
//   - one is a route or a rule of the other one, or both are about one destination or table.
//
// lead returns the owner that answers for another one, and returns all other owners unchanged.
func (a Aggregation) Parts(lead func(owner string) string) []nmstate.Part {
	g := groups{}
	everyRoute := false
	for _, asked := range a.asked {
		everyRoute = everyRoute || slices.ContainsFunc(asked.leaves, anyDevice)
	}
	for _, asked := range a.asked {
		owner := "owner " + lead(asked.owner)
		for _, l := range asked.leaves {
			at := top(l)
			g.join(at, owner)
			for _, other := range ties(l) {
				g.join(at, other)
			}
			if everyRoute && l.path.entry() && l.path[0].key == routes {
				g.join(at, routes)
			}
		}
	}
	return g.divide(a.leaves)
}

// About has the paths of what an owner asks for, as Parts has them.
func (a Aggregation) About(owner string) []string {
	var paths []string
	for _, asked := range a.asked {
		if asked.owner != owner {
			continue
		}
		for _, l := range asked.leaves {
			paths = append(paths, top(l))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// asked holds the fields that an owner demands. Another owner may have got them.
type asked struct {
	owner  string
	leaves []leaf
}

// Split divides a desired state by the paths of its parts. rest has the fields outside of all
// parts, and is nil without such fields.
func Split(desired map[string]any, parts []nmstate.Part) (divided []map[string]any, rest map[string]any, err error) {
	leaves, err := parse(desired)
	if err != nil {
		return nil, nil, err
	}
	of := map[string]int{}
	for n, part := range parts {
		for _, at := range part.Paths {
			of[at] = n
		}
	}
	sorted, others := make([][]leaf, len(parts)), []leaf(nil)
	for _, l := range leaves {
		if n, ok := of[top(l)]; ok {
			sorted[n] = append(sorted[n], l)
		} else {
			others = append(others, l)
		}
	}
	for _, part := range sorted {
		divided = append(divided, format(part))
	}
	if len(others) > 0 {
		rest = format(others)
	}
	return divided, rest, nil
}

// top is the path of what a leaf is enforced with: its interface, its entry or its section.
func top(l leaf) string {
	if called, ok := l.path.iface(); ok {
		if plain := len(interfaces) + len("[]") + len(called); strings.HasPrefix(l.at[len(interfaces)+1:], called) {
			return l.at[:plain]
		}
		return device(called) // its name is quoted
	}
	if l.path.entry() {
		return l.at
	}
	return l.path[:1].String()
}

// device is the path of an interface.
func device(called string) string { return element(path{{key: interfaces}}, called).String() }

// ties returns the dependencies of a leaf: paths of interfaces, and words for destinations and
// tables.
func ties(l leaf) []string {
	var list []string
	for _, called := range dependsOn(l) {
		list = append(list, device(called))
	}
	if len(l.path) == 4 && l.path[3].key == "route-table-id" { // of a VRF
		return append(list, word("table", tableOf("table-id", l.value)))
	}
	if !l.path.entry() {
		return list
	}
	entry := l.value.(map[string]any)
	table := tableOf("table-id", entry["table-id"])
	if l.path[0].key == rules {
		table = tableOf("route-table", entry["route-table"])
	}
	if to, _ := entry["destination"].(string); to != "" {
		list = append(list, word("to "+to, table))
	}
	if table != float64(mainTable) { // all meet in the main one
		list = append(list, word("table", table))
	}
	return list
}

// dependsOn are the interfaces that a leaf names: ports, the controller, the base or the other
// end of an interface, and the device of a route or a rule.
func dependsOn(l leaf) []string {
	if l.path.entry() {
		entry := l.value.(map[string]any)
		return texts(entry["next-hop-interface"], entry["iif"])
	}
	if _, ok := l.path.iface(); !ok {
		return nil
	}
	if l.path[len(l.path)-1].element {
		return nil // an alternative name
	}
	switch l.path[len(l.path)-1].key {
	case "base-iface", controller, "peer":
		return texts(l.value)
	case "port":
		return portsOf([]leaf{l})
	default:
		return nil
	}
}

// texts returns the values that are texts and not empty.
func texts(values ...any) []string {
	var list []string
	for _, value := range values {
		if text, _ := value.(string); text != "" {
			list = append(list, text)
		}
	}
	return list
}

func word(what string, table any) string { return fmt.Sprintf("%s %v", what, table) }

// anyDevice reports whether an entry removes routes of all interfaces.
func anyDevice(l leaf) bool {
	return l.path.entry() && l.path[0].key == routes && isAbsent(l.value.(map[string]any)) && deviceOf(l) == ""
}

// groups are sets of texts: each text leads to another one of its set, or is its head.
type groups map[string]string

func (g groups) head(text string) string {
	for {
		next, ok := g[text]
		if !ok || next == text {
			return text
		}
		text = next
	}
}

func (g groups) join(a, b string) {
	if a, b = g.head(a), g.head(b); a != b {
		g[a] = b
	}
}

// divide returns the paths of leaves by their sets, nil for one set.
func (g groups) divide(leaves []owned) []nmstate.Part {
	var parts []nmstate.Part
	at, known := map[string]int{}, map[string]bool{}
	for _, l := range leaves {
		what := top(l.leaf)
		if known[what] {
			continue
		}
		known[what] = true
		head := g.head(what)
		n, ok := at[head]
		if !ok {
			n = len(parts)
			at[head], parts = n, append(parts, nmstate.Part{})
		}
		parts[n].Paths = append(parts[n].Paths, what)
	}
	if len(parts) < 2 {
		return nil
	}
	for _, part := range parts {
		slices.Sort(part.Paths)
	}
	return parts
}
