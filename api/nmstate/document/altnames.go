// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"cmp"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/quote"
)

// AltName is an alternative name of an interface, which may be longer than a name
// (ip-link(8), altname).
type AltName struct {
	Name string `json:"name"`
	// State is "" or Absent: the interface has no such name.
	State string `json:"state,omitempty"`
}

// LongestAltName is the maximum length of an alternative name, in bytes (ALTIFNAMSIZ of Linux).
const LongestAltName = 127

// MergeAltNames returns alternative names, sorted. Names of want replace equal names of have.
// Names that want lacks stay: a desired list is never the complete list.
func MergeAltNames(have, want []AltName) []AltName {
	merged := slices.Clone(want)
	for _, a := range have {
		if !slices.ContainsFunc(want, func(w AltName) bool { return w.Name == a.Name }) {
			merged = append(merged, a)
		}
	}
	slices.SortFunc(merged, func(a, b AltName) int { return cmp.Compare(a.Name, b.Name) })
	return merged
}

// references are the fields of an interface that name interfaces. A segment with [] is a list.
var references = []string{
	"name", "controller", "copy-mac-from", "veth.peer", "bridge.port[].name", "bridge.ports[].name",
	"link-aggregation.port[]", "link-aggregation.ports[]", "bond.port[]", "bond.ports[]", "vrf.port[]", "vrf.ports[]",
	"link-aggregation.options.primary", "link-aggregation.options.active_slave", "bond.options.primary", "bond.options.active_slave",
	"vlan.base-iface", "vxlan.base-iface", "mac-vlan.base-iface", "ipvlan.base-iface",
}

// rootReferences lists the fields of a document that name an interface.
var rootReferences = []string{
	"routes.config[].next-hop-interface", "routes.config[].vrf-name", "route-rules.config[].iif",
}

// KernelNames returns a JSON document with the names of interfaces in place of alternative ones
// of the current state. An interface with that very name precedes. KernelNames
// does not change the document. Without alternative names in it, the result is the document itself.
func KernelNames(desired, current map[string]any) map[string]any {
	r := renaming{names: alternatives(current)}
	if len(r.names) == 0 {
		return desired
	}
	next := desired
	for _, path := range rootReferences {
		next = r.object(next, strings.Split(path, "."))
	}
	for _, path := range references {
		next = r.object(next, append([]string{"interfaces[]"}, strings.Split(path, ".")...))
	}
	return next
}

// alternatives are the names of the interfaces of a state by their alternative names. A name that
// no message may repeat is left out: nobody has checked a state that a node reports.
func alternatives(state map[string]any) map[string]string {
	names, taken := map[string]string{}, map[string]bool{}
	list, _ := state["interfaces"].([]any)
	for _, item := range list {
		i, _ := item.(map[string]any)
		name, _ := i["name"].(string)
		taken[name] = true
		alternative, _ := i["alt-names"].([]any)
		for _, a := range alternative {
			entry, _ := a.(map[string]any)
			if other, _ := entry["name"].(string); other != "" && name != "" && quote.IsShort(name) {
				names[other] = name
			}
		}
	}
	for name := range taken {
		delete(names, name)
	}
	return names
}

// renaming replaces names by others. Its functions copy the values that they change.
type renaming struct{ names map[string]string }

// value renames the names at a path below a value.
func (r renaming) value(value any, path []string) any {
	switch v := value.(type) {
	case map[string]any:
		if len(path) > 0 {
			return r.object(v, path)
		}
	case string:
		if name, ok := r.names[v]; ok && len(path) == 0 {
			return name
		}
	}
	return value
}

func (r renaming) object(object map[string]any, path []string) map[string]any {
	key, isList := strings.CutSuffix(path[0], "[]")
	now, there := object[key]
	if !there {
		return object
	}
	next := make(map[string]any, len(object))
	for k, v := range object {
		next[k] = v
	}
	items, ok := now.([]any)
	if !isList || !ok {
		next[key] = r.value(now, path[1:])
		return next
	}
	renamed := make([]any, len(items))
	for n, item := range items {
		renamed[n] = r.value(item, path[1:])
	}
	next[key] = renamed
	return next
}
