// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"slices"
	"strings"
)

// rootInterfaces is the only root of a state that is a list itself.
const rootInterfaces = "interfaces"

// parts are the fields of a root of a state document. The root interfaces has none.
func parts(root string) (fields []string, known bool) {
	switch root {
	case rootInterfaces:
		return nil, true
	case "routes", "dns-resolver":
		return []string{"running", "config"}, true
	case "route-rules":
		return []string{"config"}, true
	default:
		return nil, false
	}
}

// lengthOfList returns the number of steps to the list of a state that contains the path, and 0
// outside of lists.
func lengthOfList(path []step) int {
	switch {
	case path[0].field == rootInterfaces:
		return 1
	case len(path) > 1 && path[0].field != "dns-resolver":
		return 2
	default:
		return 0
	}
}

// checkStage refuses what no state can satisfy.
func checkStage(s stage, operator int) error {
	path := s.path.steps
	if len(path) == 0 {
		if s.operator == "" {
			return nil
		}
		return faultf(operator, "%s needs a path into the state on its left, like interfaces.name", s.operator)
	}
	if err := checkPath(path); err != nil {
		return err
	}
	if s.operator == equal || s.operator == unequal {
		return checkFilter(path, operator)
	}
	return nil
}

func checkPath(path []step) error {
	root := path[0]
	fields, known := parts(root.field)
	if !known {
		return faultf(root.column, "a state has interfaces, routes, route-rules and dns-resolver, but no %q", root)
	}
	if len(fields) == 0 || len(path) == 1 || slices.Contains(fields, path[1].field) {
		return nil
	}
	return faultf(path[1].column, "%s has %s, but no %q", root, strings.Join(fields, " and "), path[1])
}

// checkFilter refuses a comparison that is not of a field of a list's elements.
func checkFilter(path []step, operator int) error {
	if path[0].field == "dns-resolver" {
		return faultf(path[0].column, "dns-resolver can be captured whole, but not compared")
	}
	length := lengthOfList(path)
	if length == 0 || length == len(path) || path[len(path)-1].isIndex() {
		return faultf(
			operator,
			"a comparison needs a field of the elements on its left, like interfaces.name or routes.running.destination",
		)
	}
	return nil
}
