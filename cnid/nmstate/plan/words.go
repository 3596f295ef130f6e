// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/cnid/nmstate/compare"
)

// routeWords prints all fields of a route, in the manner of ip-route(8). Two routes are
// the same if and only if their words are.
func routeWords(route document.Route) string {
	route = compare.NormalRoute(route)
	var words []string
	add := func(format string, value string) {
		if value != "" {
			words = append(words, fmt.Sprintf(format, value))
		}
	}
	add("%s", route.Type)
	add("%s", route.Destination)
	add("via %s", route.Address)
	add("dev %s", route.Interface)
	words = append(words, fmt.Sprintf("table %d metric %d", *route.Table, *route.Metric))
	add("src %s", route.Source)
	add("mtu %s", lockedMTU(route))
	add("advmss %s", number(route.AdvMSS))
	add("initcwnd %s", number(route.InitCwnd))
	add("initrwnd %s", number(route.InitRwnd))
	if route.QuickACK != nil && *route.QuickACK {
		words = append(words, "quickack 1")
	}
	return strings.Join(words, " ")
}

// number returns a number in decimals, "" for nil.
func number(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func lockedMTU(route document.Route) string {
	if route.LockMTU != nil && *route.LockMTU {
		return "lock " + number(route.MTU)
	}
	return number(route.MTU)
}

// ruleWords prints all fields of a rule, in the manner of ip-rule(8). Two rules are the
// same if and only if their words are.
func ruleWords(rule document.RouteRule) string {
	rule = compare.NormalRule(rule)
	words := []string{rule.Family, "from " + orAll(rule.From)}
	if rule.To != "" {
		words = append(words, "to "+rule.To)
	}
	if rule.IncomingInterface != "" {
		words = append(words, "iif "+rule.IncomingInterface)
	}
	if rule.Mark != nil {
		words = append(words, "fwmark "+mark(rule))
	}
	words = append(words, fmt.Sprintf("priority %d", *rule.Priority))
	if rule.Action != "" {
		// Such a rule looks up no table.
		words = append(words, rule.Action)
	} else {
		words = append(words, fmt.Sprintf("table %d", *rule.Table))
	}
	if rule.SuppressPrefixLength != nil {
		words = append(words, fmt.Sprintf("suppress_prefixlength %d", *rule.SuppressPrefixLength))
	}
	return strings.Join(words, " ")
}

func orAll(prefix string) string {
	if prefix == "" {
		return "all"
	}
	return prefix
}

func mark(rule document.RouteRule) string {
	const allBits = 1<<32 - 1
	if rule.Mask == nil || *rule.Mask == allBits {
		return fmt.Sprintf("%#x", *rule.Mark)
	}
	return fmt.Sprintf("%#x/%#x", *rule.Mark, *rule.Mask)
}
