// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// Share holds the desired state of one node that a policy contributes.
type Share struct {
	Policy   nmstate.Reference
	Priority int32
	// Desired is a result of Instantiate.
	Desired map[string]any
}

// Owner tells who has a field.
type Owner struct {
	// Path is for example interfaces[eth1].mtu.
	Path string
	// Owner is Manual, or a Reference's text.
	Owner string
}

// Conflict is a field that two want otherwise. The winner has it.
type Conflict struct {
	Path          string
	Winner, Loser string
}

// String is a message about a conflict.
func (c Conflict) String() string {
	return fmt.Sprintf("%s: %s has the field, and not %s", c.Path, c.Winner, c.Loser)
}

// Refusal is a policy whose state can't be read. It has no share in the result.
type Refusal struct {
	Policy nmstate.Reference
	Err    error
}

// Aggregation is a desired state, and who made it.
type Aggregation struct {
	// Desired has the fields of all owners, and FromPolicies lacks the fields that were set by
	// hand.
	Desired, FromPolicies map[string]any
	// Owners are the owners of all fields, without fields of their own, sorted by path.
	Owners    []Owner
	Conflicts []Conflict
	Refused   []Refusal

	leaves []owned
	asked  []asked
}

// Aggregate puts the desired state of a node together, whatever the order of shares is.
//
// The desired state set by hand comes first. Then come policies by priority, the higher first,
// and with equal priorities by name and kind in the alphabet. The first owner to set a field has
// it. A later owner may set the same value; a different value is a conflict. Fields are compared
// by the names of interfaces and the paths within them. A list, for example of addresses or of
// ports, counts as one field.
//
// Three cases are different. First, Aggregate concatenates the entries of routes.config and
// route-rules.config without doubles. An entry conflicts with another owner's absent entry that
// removes it. Second, owners that disagree on the type or the state of an interface can't share
// it: the later owner gets no field of it. Without a state, an interface is up here; or down, if
// its state was set by hand, and a policy wants it down. An interface set by hand with a name
// alone counts as unset. Third, an interface belongs to a maker (made-by) only if no owner wants
// it without a maker. Aggregate drops the description of a state.
//
// Refused has the policies that can't be read. The error is about manual.
func Aggregate(shares []Share, manual map[string]any) (Aggregation, error) {
	t := tally{fields: map[string]owned{}, above: map[string]string{}, identities: map[string]identity{}}
	leaves, err := parse(manual)
	if err != nil {
		return Aggregation{}, fmt.Errorf("the desired state that was set by hand: %w", err)
	}
	t.add(Manual, leaves)
	var refused []Refusal
	for _, share := range slices.SortedFunc(slices.Values(shares), compareShares) {
		leaves, err := parse(share.Desired)
		if err != nil {
			refused = append(refused, Refusal{Policy: share.Policy, Err: err})
			continue
		}
		t.add(share.Policy.String(), leaves)
	}
	return t.result(refused), nil
}

func compareShares(a, b Share) int {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		cmp.Compare(a.Policy.Name, b.Policy.Name),
		cmp.Compare(a.Policy.Kind, b.Policy.Kind),
	)
}

// Part returns the fields of the desired state that one owner has.
func (a Aggregation) Part(owner string) map[string]any {
	return format(bare(a.leaves, func(o string) bool { return o == owner }))
}

// ManualPart returns the fields of a desired state that were set by hand. fromPolicies has the
// fields that policies wrote into it the last time (Aggregation.FromPolicies). The result has the
// fields that policies did not write, or whose value has changed since. It is an input of the
// next Aggregate.
func ManualPart(desired, fromPolicies map[string]any) (map[string]any, error) {
	all, err := parse(desired)
	if err != nil {
		return nil, fmt.Errorf("the desired state: %w", err)
	}
	theirs, err := parse(fromPolicies)
	if err != nil {
		return nil, fmt.Errorf("the state that policies wrote: %w", err)
	}
	written := make(map[string]string, len(theirs))
	for _, l := range theirs {
		written[l.at] = l.text
	}
	return format(slices.DeleteFunc(all, func(l leaf) bool {
		text, ok := written[l.at]
		return ok && text == l.text
	})), nil
}

// owned is a field with its owner.
type owned struct {
	leaf
	owner string
}

func bare(fields []owned, of func(owner string) bool) []leaf {
	var leaves []leaf
	for _, f := range fields {
		if of(f.owner) {
			leaves = append(leaves, f.leaf)
		}
	}
	return leaves
}

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
