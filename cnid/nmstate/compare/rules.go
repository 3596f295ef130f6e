// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
)

// SameRule reports whether two rules are one, in whatever form they are written.
func SameRule(a, b document.RouteRule) bool {
	a, b = NormalRule(a), NormalRule(b)
	return RuleMatches(a, b) && RuleMatches(b, a)
}

// FamilyOf returns the family of a prefix, as rules name it.
func FamilyOf(prefix netip.Prefix) string {
	if prefix.Addr().Is4() {
		return document.FamilyIPv4
	}
	return document.FamilyIPv6
}

// NormalRule returns a rule with family, priority and table filled in, and with prefixes in the
// form for comparisons. A prefix of all addresses is "". A rule without a family is a rule of
// IPv4, as with ip-rule(8).
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
			rule.Family = FamilyOf(prefix)
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
	return matchesWord(family, normal.Family) &&
		matchesPrefix(pattern.From, all.From, normal.From) && matchesPrefix(pattern.To, all.To, normal.To) &&
		matchesWord(pattern.IncomingInterface, normal.IncomingInterface) && matchesWord(pattern.Action, normal.Action) &&
		matchesNumber(pattern.Mark, normal.Mark) && (pattern.Mask == nil || *pattern.Mask == maskOf(normal)) &&
		matchesNumber(pattern.Priority, normal.Priority) &&
		matchesNumber(pattern.SuppressPrefixLength, normal.SuppressPrefixLength) &&
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

// RuleWords returns what two rules have in common that differ by their priorities alone.
func RuleWords(rule document.RouteRule) string {
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
