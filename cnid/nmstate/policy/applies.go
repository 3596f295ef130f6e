// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// wellKnown is the prefix of the taints that Kubernetes puts on a node that is not healthy, or
// not ready yet. A node without a network would never lose them if they kept its policies away.
const wellKnown = "node.kubernetes.io/"

// Applies reports whether a policy is for a node, and if not, why. A selector must be met,
// and one of the affinity's terms, and each taint with NoSchedule or NoExecute tolerated.
// Taints of the domain node.kubernetes.io keep no policy away.
func Applies(p nmstate.PolicySpec, n Node) (bool, string) {
	for _, key := range slices.Sorted(maps.Keys(p.Selector)) {
		if value, ok := n.Labels[key]; !ok || value != p.Selector[key] {
			return false, fmt.Sprintf("node %s does not have the label %s=%s of the node selector", n.Name, key, p.Selector[key])
		}
	}
	if p.Affinity != nil {
		if met, why := meetsAffinity(*p.Affinity, n); !met {
			return false, why
		}
	}
	if taint := untolerated(p, n.Taints); taint != nil {
		return false, fmt.Sprintf(
			"node %s has the taint %s:%s, which the policy does not tolerate",
			n.Name,
			taint.Key,
			taint.Effect,
		)
	}
	return true, ""
}

func untolerated(p nmstate.PolicySpec, taints []Taint) *Taint {
	if p.IgnoreTaints {
		return nil
	}
	for i, taint := range taints {
		keeps := taint.Effect == NoSchedule || taint.Effect == NoExecute
		if !keeps || strings.HasPrefix(taint.Key, wellKnown) {
			continue
		}
		if !slices.ContainsFunc(p.Tolerations, func(t nmstate.Toleration) bool { return tolerates(t, taint) }) {
			return &taints[i]
		}
	}
	return nil
}

func tolerates(t nmstate.Toleration, taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	switch t.Operator {
	case Exists:
		return t.Key == "" || t.Key == taint.Key
	case Equal, "":
		return t.Key == taint.Key && t.Value == taint.Value
	default:
		return false
	}
}

// meetsAffinity reports whether a node meets one of the terms. The reason names a requirement that can't be
// read, if there is one: such a term is met by no node.
func meetsAffinity(a nmstate.Affinity, n Node) (bool, string) {
	reason := fmt.Sprintf("node %s meets no required term of the node affinity", n.Name)
	for i, term := range a.Terms {
		met, err := meetsTerm(term, n)
		if met {
			return true, ""
		}
		if err != nil {
			reason = fmt.Sprintf("node affinity: term %d: %v", i, err)
		}
	}
	return false, reason
}

func meetsTerm(t nmstate.Term, n Node) (bool, error) {
	if len(t.Labels)+len(t.Fields) == 0 {
		return false, nil
	}
	for _, r := range t.Labels {
		value, has := n.Labels[r.Key]
		if met, err := meets(r, value, has); !met {
			return false, err
		}
	}
	for _, r := range t.Fields {
		if err := checkField(r); err != nil {
			return false, err
		}
		if met, err := meets(r, n.Name, true); !met {
			return false, err
		}
	}
	return true, nil
}

// checkField refuses what Kubernetes refuses of a field.
func checkField(r nmstate.Requirement) error {
	if r.Key != "metadata.name" {
		return fmt.Errorf("matchFields knows metadata.name, but no %q", r.Key)
	}
	if r.Operator != In && r.Operator != NotIn || len(r.Values) != 1 {
		return fmt.Errorf("matchFields of metadata.name needs the operator In or NotIn, and one value")
	}
	return nil
}

// meets compares a requirement with a value, which the node has or not.
func meets(r nmstate.Requirement, value string, has bool) (bool, error) {
	switch r.Operator {
	case In:
		return has && slices.Contains(r.Values, value), nil
	case NotIn:
		return !has || !slices.Contains(r.Values, value), nil
	case Exists:
		return has, nil
	case DoesNotExist:
		return !has, nil
	case Gt, Lt:
		return compare(r, value, has)
	default:
		return false, fmt.Errorf("%s: unknown operator %q; use In, NotIn, Exists, DoesNotExist, Gt or Lt", r.Key, r.Operator)
	}
}

// compare evaluates the operators Gt and Lt. A label without a whole number satisfies neither.
func compare(r nmstate.Requirement, value string, has bool) (bool, error) {
	if len(r.Values) != 1 {
		return false, fmt.Errorf("%s: the operator %s needs one value", r.Key, r.Operator)
	}
	bound, err := strconv.ParseInt(r.Values[0], 10, 64)
	if err != nil {
		return false, fmt.Errorf("%s: the operator %s needs a whole number, and not %q", r.Key, r.Operator, r.Values[0])
	}
	number, err := strconv.ParseInt(value, 10, 64)
	if !has || err != nil {
		return false, nil //nolint:nilerr // the label is the node's, and no fault of the policy
	}
	return r.Operator == Gt && number > bound || r.Operator == Lt && number < bound, nil
}

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
