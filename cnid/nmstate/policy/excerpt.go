// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Excerpt is the part of a node's state that desired states may change when they are
// applied: the interfaces that they name, with ports and controllers of these; routes of
// these interfaces; routes and rules that an entry of theirs matches; and the resolver's
// configuration if they have one.
func Excerpt(current map[string]any, desired ...map[string]any) (map[string]any, error) {
	now, err := parse(current)
	if err != nil {
		return nil, err
	}
	wanted, err := parseEach(desired)
	if err != nil {
		return nil, err
	}
	names := touched(wanted)
	for called, fields := range byInterface(now) {
		if slices.ContainsFunc(portsOf(fields), func(port string) bool { return names[port] }) {
			names[called] = true
		}
	}
	return format(slices.DeleteFunc(now, func(l leaf) bool {
		called, ok := l.path.iface()
		switch {
		case ok:
			return !names[called]
		case l.path.entry():
			return !names[deviceOf(l)] && !matchedBy(wanted, l)
		default:
			return !ofResolver(l) || !slices.ContainsFunc(wanted, ofResolver)
		}
	})), nil
}

// Present returns what undoes something, without interfaces that are not there and can't be
// made: somebody has removed them since, and nobody knows their type.
func Present(back, current map[string]any) (map[string]any, error) {
	leaves, err := parseEach([]map[string]any{back})
	if err != nil {
		return nil, err
	}
	now, err := parse(current)
	if err != nil {
		return nil, err
	}
	there, wanted := byInterface(now), byInterface(leaves)
	return format(slices.DeleteFunc(leaves, func(l leaf) bool {
		called, ok := l.path.iface()
		return ok && there[called] == nil && textOf(wanted[called], kind) == ""
	})), nil
}

// Setting is a digest of what a state depends on: the names of those interfaces that it is about
// and that are there, and what others desire.
func Setting(wanted, current, others map[string]any) string {
	leaves, err := parse(wanted)
	if err != nil {
		return ""
	}
	about, now := touched(leaves), objectsByName(current)
	for _, l := range leaves {
		for _, called := range dependsOn(l) {
			about[called] = true
		}
	}
	maps.DeleteFunc(about, func(called string, _ bool) bool { return now[called] == nil })
	text, _ := canonical(others) // it was made of leaves
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(maps.Keys(about)), "/") + " " + text))
	return hex.EncodeToString(sum[:8])
}

// parseEach returns the leaves of several states. An interface can be in some of them.
func parseEach(documents []map[string]any) ([]leaf, error) {
	var all []leaf
	for _, document := range documents {
		leaves, err := parse(document)
		if err != nil {
			return nil, err
		}
		all = append(all, leaves...)
	}
	return all, nil
}

// touched are the interfaces that a state names, and its ports.
func touched(leaves []leaf) map[string]bool {
	names := map[string]bool{}
	for called := range byInterface(leaves) {
		names[called] = true
	}
	for _, port := range portsOf(leaves) {
		names[port] = true
	}
	return names
}

func ofResolver(l leaf) bool {
	return l.path[0].key == dns && len(l.path) > 1 && l.path[1].key == config
}

// deviceOf is the interface of a route, "" of any other field.
func deviceOf(l leaf) string {
	entry, _ := l.value.(map[string]any)
	device, _ := entry["next-hop-interface"].(string)
	return device
}

// matchedBy reports whether an entry is one that a state adds or removes.
func matchedBy(leaves []leaf, entry leaf) bool {
	return slices.ContainsFunc(leaves, func(l leaf) bool {
		return l.path.entry() && l.path[0] == entry.path[0] && covers(l.value.(map[string]any), entry.value.(map[string]any))
	})
}
