// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/alioth-net/alioth/api/quote"
)

// Fields of a state document with a meaning here.
const (
	interfaces = "interfaces"
	routes     = "routes"
	rules      = "route-rules"
	dns        = "dns-resolver"
	config     = "config"
	name       = "name"
	kind       = "type"
	state      = "state"
	ipv4       = "ipv4"
	address    = "address"
	dhcp       = "dhcp"
	ipv6       = "ipv6"
	controller = "controller"
	// altNames are alternative names: entries that are added, and no list that is replaced.
	altNames = "alt-names"
	// waitIP is for what a change waits: an interface has no such thing.
	waitIP = "wait-ip"
	// madeBy is Alioth's own: whose interface it has to be.
	madeBy = "made-by"
)

// Values of madeBy: an interface that others make is never made, and one that Alioth makes is
// changed only if it did.
const (
	byOthers = "others"
	byAlioth = "alioth"
)

// States of interfaces and entries with a meaning here.
const (
	up     = "up"
	down   = "down"
	absent = "absent"
	// inactive is Alioth's own: a virtual interface that is down and stays.
	inactive = "inactive"
	ignore   = "ignore"
)

// leaf is a field of a state without fields of its own: a number, a text, a list, an empty
// object, or an entry of routes.config and route-rules.config.
type leaf struct {
	path path
	// at is the path's text.
	at    string
	value any
	// text is the value as JSON with sorted keys: equal values have equal ones.
	text string
}

// parse is a state as its leaves, in an order that depends on the state's content only.
// The description of a state is for people, so it is left out; and a field with null is as
// if it were not there. An error has the path.
func parse(document map[string]any) ([]leaf, error) {
	var r reader
	for _, root := range slices.Sorted(maps.Keys(document)) {
		var err error
		switch root {
		case "description":
		case interfaces:
			err = r.interfaces(document[root])
		case routes, rules:
			err = r.lists(path{{key: root}}, document[root])
		default:
			err = r.walk(path{{key: root}}, document[root])
		}
		if err != nil {
			return nil, err
		}
	}
	return r.leaves, nil
}

type reader struct{ leaves []leaf }

func (r *reader) interfaces(value any) error {
	list, ok := value.([]any)
	if !ok && value != nil {
		return fmt.Errorf("%s: expected a list of interfaces", interfaces)
	}
	seen := make(map[string]bool, len(list))
	for i, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return fmt.Errorf("%s[%d]: expected an object with a name", interfaces, i)
		}
		called, _ := object[name].(string)
		switch {
		case called == "":
			return fmt.Errorf("%s[%d].name: the interface must have a name", interfaces, i)
		case seen[called]:
			return fmt.Errorf("%s[%d].name: %q is there twice; put all of its fields into one", interfaces, i, called)
		}
		seen[called] = true
		if err := r.walk(element(path{{key: interfaces}}, called), item); err != nil {
			return err
		}
	}
	return nil
}

// lists reads an object whose config is a concatenated list.
func (r *reader) lists(at path, value any) error {
	object, ok := value.(map[string]any)
	if !ok {
		return r.walk(at, value)
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if key != config {
			if err := r.walk(field(at, key), object[key]); err != nil {
				return err
			}
			continue
		}
		list, ok := object[key].([]any)
		if !ok && object[key] != nil {
			return fmt.Errorf("%s: expected a list", field(at, key))
		}
		for i, item := range list {
			if _, ok := item.(map[string]any); !ok {
				return fmt.Errorf("%s[%d]: expected an object", field(at, key), i)
			}
			text, err := canonical(item)
			if err != nil {
				return fmt.Errorf("%s[%d]: %w", field(at, key), i, err)
			}
			r.add(element(field(at, key), label(item.(map[string]any), text)), item, text)
		}
	}
	return nil
}

// walk reads the leaves of a value.
func (r *reader) walk(at path, value any) error {
	if value == nil {
		return nil
	}
	if object, ok := value.(map[string]any); ok && len(object) > 0 {
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if err := r.walk(field(at, key), object[key]); err != nil {
				return err
			}
		}
		return nil
	}
	if list, ok := altNamesOf(at, value); ok {
		return r.altNames(at, list)
	}
	text, err := canonical(value)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	r.add(at, value, text)
	return nil
}

// altNamesOf are the alternative names of an interface, by name. ok is false for another value,
// and for a list that the node refuses.
func altNamesOf(at path, value any) (list map[string]any, ok bool) {
	items, ok := value.([]any)
	if _, of := at.iface(); !of || len(at) != 3 || at[2].key != altNames || !ok {
		return nil, false
	}
	list = map[string]any{}
	for _, item := range items {
		entry, _ := item.(map[string]any)
		called, _ := entry[name].(string)
		if called == "" || list[called] != nil {
			return nil, false
		}
		list[called] = item
	}
	return list, true
}

// altNames reads each alternative name as a field of its own.
func (r *reader) altNames(at path, list map[string]any) error {
	for _, called := range slices.Sorted(maps.Keys(list)) {
		text, err := canonical(list[called])
		if err != nil {
			return fmt.Errorf("%s[%s]: %w", at, called, err)
		}
		r.add(element(at, called), list[called], text)
	}
	return nil
}

func (r *reader) add(at path, value any, text string) {
	r.leaves = append(r.leaves, leaf{path: at, at: at.String(), value: value, text: text})
}

// canonical is a value as JSON with sorted keys. Numbers of all Go types are alike.
func canonical(value any) (string, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("expected a JSON value: %w", err)
	}
	return string(data), nil
}

// maxLabel bounds what a label shows of an entry, in bytes.
const maxLabel = 64

// label names an entry of a list: what it is about, for people, and a hash.
func label(entry map[string]any, text string) string {
	sum := sha256.Sum256([]byte(text))
	about := ""
	for _, key := range []string{"destination", "ip-to", "ip-from", "next-hop-interface"} {
		if value, ok := entry[key].(string); ok && value != "" {
			about = quote.Cut(value, maxLabel) + " "
			break
		}
	}
	return about + "#" + hex.EncodeToString(sum[:8])
}

// format is the inverse of parse. Interfaces are sorted by name, entries of lists in the
// order of the leaves.
func format(leaves []leaf) map[string]any {
	document := map[string]any{}
	byName := map[string]map[string]any{}
	for _, l := range leaves {
		value := clone(l.value)
		if called, ok := l.path.iface(); ok {
			if byName[called] == nil {
				byName[called] = map[string]any{name: called}
			}
			put(byName[called], l.path[2:], value)
			continue
		}
		put(document, l.path, value)
	}
	if len(byName) > 0 {
		list := make([]any, 0, len(byName))
		for _, called := range slices.Sorted(maps.Keys(byName)) {
			list = append(list, byName[called])
		}
		document[interfaces] = list
	}
	return document
}

// put sets a field of an object, and makes those on the way.
func put(object map[string]any, at path, value any) {
	for len(at) > 1 && !at[1].element {
		next, ok := object[at[0].key].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[at[0].key] = next
		}
		object, at = next, at[1:]
	}
	if len(at) == 1 {
		object[at[0].key] = value
		return
	}
	list, _ := object[at[0].key].([]any)
	object[at[0].key] = append(list, value)
}

// clone is a JSON value that shares nothing with another one.
func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for key, item := range v {
			object[key] = clone(item)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = clone(item)
		}
		return list
	default:
		return value
	}
}
