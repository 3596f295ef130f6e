// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"slices"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// rules returns all rules that shall be.
func (r *resolution) rules(desired, current *document.RouteRules) []document.RouteRule {
	var list, want []document.RouteRule
	if current != nil {
		list = slices.Clone(current.Config)
	}
	if desired != nil {
		want = desired.Config
	}
	var added []document.RouteRule
	for n, rule := range want {
		path := fmt.Sprintf("route-rules.config[%d]", n)
		if r.Word(path+".state", rule.State, document.Absent); !r.checkRule(path, rule) {
			continue
		}
		if rule.State != document.Absent {
			added = append(added, compare.NormalRule(rule))
			continue
		}
		list = slices.DeleteFunc(list, func(other document.RouteRule) bool { return compare.RuleMatches(rule, other) })
	}
	for _, rule := range added {
		if !slices.ContainsFunc(list, func(other document.RouteRule) bool { return compare.SameRule(rule, other) }) {
			list = append(list, rule)
		}
	}
	return list
}

// withPriorities gives each rule to add a priority. It is the priority of the same present rule,
// or the first free one from DefaultPriority on. Rules of both families share them, as in
// nmstate.
func withPriorities(desired, current *document.RouteRules) *document.RouteRules {
	if desired == nil {
		return nil
	}
	taken, of := map[int64]bool{}, map[string]int64{}
	take := func(list []document.RouteRule) {
		for _, rule := range list {
			if rule.Priority != nil && rule.State == "" {
				taken[*rule.Priority], of[compare.RuleWords(rule)] = true, *rule.Priority
			}
		}
	}
	if current != nil {
		take(current.Config)
	}
	take(desired.Config)
	complete := &document.RouteRules{Config: slices.Clone(desired.Config)}
	free := int64(document.DefaultPriority)
	for n, rule := range complete.Config {
		if rule.Priority != nil || rule.State != "" {
			continue
		}
		priority, there := of[compare.RuleWords(rule)]
		for ; !there && taken[free]; free++ {
		}
		if !there {
			priority = free
		}
		rule.Priority = &priority
		complete.Config[n] = rule
		take(complete.Config[n : n+1])
	}
	return complete
}

func (r *resolution) checkRule(path string, rule document.RouteRule) bool {
	before := len(r.Problems)
	from := r.rulePrefix(path+".ip-from", rule.From, rule.Family)
	to := r.rulePrefix(path+".ip-to", rule.To, rule.Family)
	if from != "" && to != "" && from != to {
		r.Add(path+".ip-to", "%s: want a prefix of %s, as ip-from is", rule.To, from)
	}
	r.Word(path+".family", rule.Family, document.FamilyIPv4, document.FamilyIPv6)
	r.Word(path+".action", rule.Action, document.Blackhole, document.Unreachable, document.Prohibit)
	r.Uint32(path+".priority", rule.Priority)
	r.Uint32(path+".route-table", rule.Table)
	const mostBits = 128
	r.Within(path+".suppress-prefix-length", rule.SuppressPrefixLength, 0, mostBits)
	if rule.IncomingInterface != "" {
		r.Name(path+".iif", rule.IncomingInterface)
	}
	if rule.Mask != nil && rule.Mark == nil {
		r.Add(path+".fwmask", "%#x: want fwmark too", *rule.Mask)
	}
	r.checkRuleWhole(path, rule)
	return len(r.Problems) == before
}

func (r *resolution) checkRuleWhole(path string, rule document.RouteRule) {
	if rule.State != document.Absent && rule.Family == "" && rule.From == "" && rule.To == "" &&
		rule.IncomingInterface == "" &&
		rule.Mark == nil {
		r.Add(path, "want at least one of family, ip-from, ip-to, iif and fwmark")
	}
}

// rulePrefix checks a prefix of a rule, and returns its family.
func (r *resolution) rulePrefix(path, text, family string) string {
	if text == "" || text == document.AnyPrefix {
		return ""
	}
	prefix, ok := r.Prefix(path, text)
	if !ok {
		return ""
	}
	of := compare.FamilyOf(prefix)
	if family != "" && family != of {
		r.Add(path, "%s: want a prefix of %s, which is the family", text, family)
	}
	return of
}
