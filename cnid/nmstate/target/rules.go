// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
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
		if r.word(path+".state", rule.State, document.Absent); !r.checkRule(path, rule) {
			continue
		}
		if rule.State != document.Absent {
			added = append(added, NormalRule(rule))
			continue
		}
		list = slices.DeleteFunc(list, func(other document.RouteRule) bool { return RuleMatches(rule, other) })
	}
	for _, rule := range added {
		if !slices.ContainsFunc(list, func(other document.RouteRule) bool { return SameRule(rule, other) }) {
			list = append(list, rule)
		}
	}
	return list
}

// withPriorities gives each rule to add a priority: that of the same rule that is there, or the
// first free one from DefaultPriority on. Rules of both families share them, as in nmstate.
func withPriorities(desired, current *document.RouteRules) *document.RouteRules {
	if desired == nil {
		return nil
	}
	taken, of := map[int64]bool{}, map[string]int64{}
	take := func(list []document.RouteRule) {
		for _, rule := range list {
			if rule.Priority != nil && rule.State == "" {
				taken[*rule.Priority], of[ruleWords(rule)] = true, *rule.Priority
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
		priority, there := of[ruleWords(rule)]
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

// ruleWords is what two rules have in common that differ by their priorities alone.
func ruleWords(rule document.RouteRule) string {
	rule = NormalRule(rule)
	words := []any{rule.Family, rule.From, rule.To, rule.IncomingInterface, rule.Action}
	if rule.Action == "" {
		words = append(words, *rule.Table)
	}
	if rule.Mark != nil {
		words = append(words, "mark", *rule.Mark, maskOf(rule))
	}
	if rule.SuppressPrefixLength != nil {
		words = append(words, "suppress", *rule.SuppressPrefixLength)
	}
	return fmt.Sprintln(words...)
}

// SameRule reports whether two rules are one, in whatever form they are written.
func SameRule(a, b document.RouteRule) bool {
	a, b = NormalRule(a), NormalRule(b)
	return RuleMatches(a, b) && RuleMatches(b, a)
}

func (r *resolution) checkRule(path string, rule document.RouteRule) bool {
	before := len(r.problems)
	from := r.rulePrefix(path+".ip-from", rule.From, rule.Family)
	to := r.rulePrefix(path+".ip-to", rule.To, rule.Family)
	if from != "" && to != "" && from != to {
		r.add(path+".ip-to", "%s: want a prefix of %s, as ip-from is", rule.To, from)
	}
	r.word(path+".family", rule.Family, document.FamilyIPv4, document.FamilyIPv6)
	r.word(path+".action", rule.Action, document.Blackhole, document.Unreachable, document.Prohibit)
	r.uint32(path+".priority", rule.Priority)
	r.uint32(path+".route-table", rule.Table)
	const mostBits = 128
	r.within(path+".suppress-prefix-length", rule.SuppressPrefixLength, 0, mostBits)
	if rule.IncomingInterface != "" {
		r.checkName(path+".iif", rule.IncomingInterface)
	}
	if rule.Mask != nil && rule.Mark == nil {
		r.add(path+".fwmask", "%#x: want fwmark too", *rule.Mask)
	}
	r.checkRuleWhole(path, rule)
	return len(r.problems) == before
}

func (r *resolution) checkRuleWhole(path string, rule document.RouteRule) {
	if rule.State != document.Absent && rule.Family == "" && rule.From == "" && rule.To == "" && rule.IncomingInterface == "" && rule.Mark == nil {
		r.add(path, "want at least one of family, ip-from, ip-to, iif and fwmark")
	}
}

// rulePrefix checks a prefix of a rule, and returns its family.
func (r *resolution) rulePrefix(path, text, family string) string {
	if text == "" || text == document.AnyPrefix {
		return ""
	}
	prefix, ok := r.prefix(path, text)
	if !ok {
		return ""
	}
	of := familyOf(prefix)
	if family != "" && family != of {
		r.add(path, "%s: want a prefix of %s, which is the family", text, family)
	}
	return of
}

func familyOf(prefix netip.Prefix) string {
	if prefix.Addr().Is4() {
		return document.FamilyIPv4
	}
	return document.FamilyIPv6
}

// NormalRule returns a rule with family, priority and table filled in, and with prefixes
// in the one form in which they are compared. A prefix of all addresses is "". A rule
// that names no family at all is of IPv4, as with ip-rule(8).
func NormalRule(rule document.RouteRule) document.RouteRule {
	for _, field := range []*string{&rule.From, &rule.To} {
		if *field == document.AnyPrefix {
			*field = ""
		}
		prefix, err := netip.ParsePrefix(*field)
		if err != nil {
			continue
		}
		if rule.Family == "" {
			rule.Family = familyOf(prefix)
		}
		if *field = prefix.Masked().String(); prefix.Bits() == 0 {
			*field = ""
		}
	}
	if rule.Family == "" {
		rule.Family = document.FamilyIPv4
	}
	if rule.Priority == nil {
		rule.Priority = new(int64(document.DefaultPriority))
	}
	if rule.Table == nil || *rule.Table == 0 {
		rule.Table = new(int64(document.MainTable))
	}
	return rule
}

// RuleMatches reports whether a rule has all that an absent one names.
func RuleMatches(pattern, rule document.RouteRule) bool {
	normal, all := NormalRule(rule), NormalRule(pattern)
	family := pattern.Family
	if names(pattern.From) || names(pattern.To) {
		family = all.Family
	}
	return matchesWord(family, normal.Family) && matchesPrefix(pattern.From, all.From, normal.From) && matchesPrefix(pattern.To, all.To, normal.To) &&
		matchesWord(pattern.IncomingInterface, normal.IncomingInterface) && matchesWord(pattern.Action, normal.Action) &&
		matchesNumber(pattern.Mark, normal.Mark) && (pattern.Mask == nil || *pattern.Mask == maskOf(normal)) &&
		matchesNumber(pattern.Priority, normal.Priority) && matchesNumber(pattern.SuppressPrefixLength, normal.SuppressPrefixLength) &&
		// A rule that does not look up has no table, whatever is shown of it.
		(pattern.Table == nil || pattern.Action != "" || *all.Table == *normal.Table)
}

// names reports whether a text is a prefix, which has a family.
func names(prefix string) bool { return prefix != "" && prefix != document.AnyPrefix }

// matchesPrefix: a prefix of all addresses that a pattern names matches a rule without.
func matchesPrefix(named, pattern, prefix string) bool {
	return strings.TrimSpace(named) == "" || pattern == prefix
}

func maskOf(rule document.RouteRule) uint32 {
	if rule.Mask == nil {
		return 1<<32 - 1
	}
	return *rule.Mask
}

func matchesNumber[T comparable](pattern, number *T) bool {
	return pattern == nil || number != nil && *pattern == *number
}
