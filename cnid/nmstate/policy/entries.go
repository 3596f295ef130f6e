// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"github.com/alioth-net/alioth/cnid/nmstate/policy/capture"
)

// mainTable is the table of a route without one (RT_TABLE_MAIN).
const mainTable = 254

// contradict reports whether one of two entries of a list adds what the other removes.
func contradict(a, b leaf) bool {
	if !a.path.entry() || !b.path.entry() || a.path[0] != b.path[0] {
		return false
	}
	first, second := a.value.(map[string]any), b.value.(map[string]any)
	switch {
	case isAbsent(first) && !isAbsent(second):
		return covers(first, second)
	case isAbsent(second) && !isAbsent(first):
		return covers(second, first)
	default:
		return false
	}
}

func isAbsent(entry map[string]any) bool { return entry[state] == absent }

// covers reports whether an absent entry removes another one: a field that it does not have
// matches any value.
func covers(pattern, entry map[string]any) bool {
	for key, want := range pattern {
		if key == state || want == nil {
			continue
		}
		if !equal(tableOf(key, want), tableOf(key, entry[key])) {
			return false
		}
	}
	return true
}

// tableOf is the number of a table as the kernel has it, and any other value as it is.
func tableOf(key string, value any) any {
	if key != "table-id" && key != "route-table" {
		return value
	}
	if n, ok := capture.Number(value); value == nil || ok && n == 0 {
		return float64(mainTable)
	}
	return value
}

func equal(a, b any) bool {
	first, errFirst := canonical(a)
	second, errSecond := canonical(b)
	return errFirst == nil && errSecond == nil && first == second
}
