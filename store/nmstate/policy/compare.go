// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "slices"

// Same reports whether two states have the same fields. The order of interfaces, of routes
// and of rules does not matter, nor does a description. One that can't be read is like no
// other.
func Same(a, b map[string]any) bool {
	leaves, err := parseAll(a, b)
	if err != nil || len(leaves[0]) != len(leaves[1]) {
		return false
	}
	return len(less(leaves[0], leaves[1])) == 0 && len(less(leaves[1], leaves[0])) == 0
}

// Minus has the fields of a state that another one does not have with the same values.
func Minus(a, b map[string]any) (map[string]any, error) {
	leaves, err := parseAll(a, b)
	if err != nil {
		return nil, err
	}
	return format(less(leaves[0], leaves[1])), nil
}

func less(a, b []leaf) []leaf {
	held := make(map[string]string, len(b))
	for _, l := range b {
		held[l.at] = l.text
	}
	return slices.DeleteFunc(slices.Clone(a), func(l leaf) bool {
		text, ok := held[l.at]
		return ok && text == l.text
	})
}
