// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
)

// Past records the changes of a policy to a node, with the state before them.
type Past struct {
	// Before is an Excerpt of the node's state without the policy. Changes are the settings that
	// were applied since: for the policy, and to undo it.
	Before  map[string]any
	Changes []map[string]any
}

// Origin is a node's state without what policies changed.
func Origin(current map[string]any, pasts []Past) (map[string]any, error) {
	leaves, err := parse(current)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, past := range pasts {
		before, err := parse(past.Before)
		if err != nil {
			return nil, fmt.Errorf("the state before: %w", err)
		}
		changes, err := parseEach(past.Changes)
		if err != nil {
			return nil, err
		}
		leaves = without(leaves, before, changes, known)
	}
	return format(leaves), nil
}

// without turns back what one policy changed. known are interfaces whose origin is in
// leaves already, because another policy changed them first.
func without(leaves, before, changes []leaf, known map[string]bool) []leaf {
	names := touched(changes)
	changed := func(l leaf) bool {
		called, ok := l.path.iface()
		switch {
		case ok:
			return names[called] && !known[called]
		case l.path.entry():
			return matchedBy(changes, l)
		default:
			return ofResolver(l) && slices.ContainsFunc(changes, ofResolver)
		}
	}
	leaves = slices.DeleteFunc(leaves, changed)
	for _, l := range before {
		// A route goes with its interface, which may be a port now.
		lost := names[deviceOf(l)] && !slices.ContainsFunc(leaves, func(o leaf) bool { return o.at == l.at })
		if changed(l) || lost {
			leaves = append(leaves, l)
		}
	}
	for called := range byInterface(before) {
		known[called] = known[called] || names[called]
	}
	return leaves
}

// Remaining returns the fields of a former state that can be restored when a desired state ends.
// It leaves out interfaces that went by themselves, for example hardware that was removed.
func Remaining(before, current, ended map[string]any) (map[string]any, error) {
	leaves, err := parseAll(before, current, ended)
	if err != nil {
		return nil, err
	}
	return format(remaining(leaves[0], leaves[1], leaves[2])), nil
}

// Seen returns a node's interfaces as match rules see them: in their state before the policy
// changed or removed them. So a policy keeps the interfaces that it matched. The result shares
// its parts with the inputs. Seen reads only the parts that it needs, because it runs whenever a
// node changes.
func Seen(current, before, applied map[string]any) map[string]any {
	was, wanted, there := objectsByName(before), objectsByName(applied), map[string]bool{}
	var seen []any
	list, _ := current[interfaces].([]any)
	for _, item := range list {
		object, _ := item.(map[string]any)
		called, _ := object[name].(string)
		there[called] = true
		if wanted[called] != nil && was[called] != nil {
			object = was[called]
		}
		seen = append(seen, object)
	}
	for called, object := range wanted {
		if removed := object[state] == absent || object[state] == down; removed && !there[called] && was[called] != nil {
			seen = append(seen, was[called])
		}
	}
	return map[string]any{interfaces: seen}
}

// objectsByName are the interfaces of a state that have a name.
func objectsByName(document map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	list, _ := document[interfaces].([]any)
	for _, item := range list {
		object, _ := item.(map[string]any)
		if called, ok := object[name].(string); ok {
			all[called] = object
		}
	}
	return all
}

func parseAll(documents ...map[string]any) ([][]leaf, error) {
	all := make([][]leaf, len(documents))
	for i, document := range documents {
		var err error
		if all[i], err = parse(document); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// remaining leaves out the interfaces that no longer exist, although nobody wanted them absent or
// down.
func remaining(before, current, ended []leaf) []leaf {
	now, wanted := byInterface(current), byInterface(ended)
	return slices.DeleteFunc(slices.Clone(before), func(l leaf) bool {
		called, ok := l.path.iface()
		removed := textOf(wanted[called], state)
		return ok && now[called] == nil && removed != absent && removed != down
	})
}
