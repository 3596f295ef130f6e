// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/cnid/nmstate/policy/capture"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// Instantiate returns the settings that a policy desires of a node.
//
// With match rules, the interface of the desired state that has no name is a template: each
// interface of the current state that a rule matches gets its fields, and its type from the
// current state unless the template has one. Others make such an interface: the policy never
// makes it again. The template does not apply to an interface that the desired state has by name,
// even if a rule matches it. The rest of the desired state stays unchanged. On a node where no
// interface matches, the policy desires nothing at all.
//
// Without match rules the desired state stays unchanged.
//
// matched are the names of the interfaces that match, sorted. An error has the path of the field
// in the desired state.
func Instantiate(p nmstate.PolicySpec, n Node) (desired map[string]any, matched []string, err error) {
	desired, _ = clone(p.Desired).(map[string]any)
	if len(p.Match) == 0 {
		_, err = parse(desired)
		return desired, nil, err
	}
	found := matches(p.Match, n.Current)
	if len(found) == 0 {
		return nil, nil, nil
	}
	for _, m := range found {
		matched = append(matched, m.name)
	}
	list, ok := desired[interfaces].([]any)
	if ok {
		if desired[interfaces], err = expand(list, found); err != nil {
			return nil, nil, err
		}
	}
	_, err = parse(desired)
	return desired, matched, err
}

// expand replaces the interface without a name.
func expand(list []any, found []current) ([]any, error) {
	named := map[string]bool{}
	template := -1
	for i, item := range list {
		object, ok := item.(map[string]any)
		called, _ := object[name].(string)
		switch {
		case !ok:
			return nil, fmt.Errorf("%s[%d]: expected an object", interfaces, i)
		case called != "":
			named[called] = true
		case object[name] != nil && object[name] != "":
			return nil, fmt.Errorf("%s[%d].name: expected a text", interfaces, i)
		case template >= 0:
			return nil, fmt.Errorf(
				"%s[%d].name: only one interface can be without a name, and interfaces[%d] is; put their fields together",
				interfaces,
				i,
				template,
			)
		default:
			template = i
		}
	}
	if template < 0 {
		return list, nil
	}
	var instances []any
	for _, m := range found {
		if named[m.name] {
			continue
		}
		instance := clone(list[template]).(map[string]any)
		// The policy matches the interface, and does not own it.
		instance[name], instance[madeBy] = m.name, byOthers
		if instance[kind] == nil && m.kind != "" {
			instance[kind] = m.kind
		}
		instances = append(instances, instance)
	}
	return slices.Concat(list[:template], instances, list[template+1:]), nil
}

// current is an interface of a node's current state.
type current struct {
	name, kind string
	vlan       float64
}

// matches are the interfaces that a rule matches, sorted by name. Ignored ones are not ours
// to set.
func matches(rules []nmstate.MatchRule, document map[string]any) []current {
	list, _ := document[interfaces].([]any)
	var found []current
	for _, item := range list {
		object, _ := item.(map[string]any)
		var c current
		c.name, _ = object[name].(string)
		c.kind, _ = object[kind].(string)
		vlan, _ := object["vlan"].(map[string]any)
		c.vlan, _ = capture.Number(vlan["id"])
		if c.name == "" || object[state] == ignore {
			continue
		}
		if slices.ContainsFunc(rules, func(r nmstate.MatchRule) bool { return selects(r, c) }) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b current) int { return strings.Compare(a.name, b.name) })
	return found
}

// selects reports whether a rule matches an interface.
func selects(r nmstate.MatchRule, c current) bool {
	return r != nmstate.MatchRule{} &&
		(r.Name == "" || r.Name == c.name) &&
		(r.Type == "" || r.Type == c.kind) &&
		(r.VLANID == 0 || float64(r.VLANID) == c.vlan)
}
