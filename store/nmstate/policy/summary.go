// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
)

// minSummary is the shortest path of a summary: interfaces[eth1], or routes.config.
const minSummary = 2

// maxPath bounds the paths of a summary, in bytes.
const maxPath = 512

// Summary is Aggregation.Owners with one entry for each part of the state that has one
// owner, at most limit of them; and the number of those that are left out.
func (a Aggregation) Summary(limit int) (owners []Owner, more int) {
	all := slices.SortedFunc(slices.Values(a.leaves), func(x, y owned) int { return strings.Compare(x.at, y.at) })
	for _, o := range summarize(all, 1) {
		if len(o.Path) > maxPath || len(owners) == limit {
			more++
			continue
		}
		owners = append(owners, o)
	}
	return owners, more
}

// summarize takes fields whose paths are equal up to a depth, exclusively.
func summarize(fields []owned, depth int) []Owner {
	var owners []Owner
	var order []string
	parts := map[string][]owned{}
	for _, f := range fields {
		at := f.path[:min(depth, len(f.path))].String()
		if parts[at] == nil {
			order = append(order, at)
		}
		parts[at] = append(parts[at], f)
	}
	for _, at := range order {
		part := parts[at]
		other := slices.ContainsFunc(part, func(f owned) bool { return f.owner != part[0].owner })
		switch {
		case len(part) == 1 && len(part[0].path) <= max(depth, minSummary):
			owners = append(owners, Owner{Path: part[0].at, Owner: part[0].owner})
		case depth >= minSummary && !other:
			owners = append(owners, Owner{Path: at, Owner: part[0].owner})
		default:
			owners = append(owners, summarize(part, depth+1)...)
		}
	}
	return owners
}
