// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"maps"
	"slices"

	"github.com/alioth-net/alioth/store/rows/policy"
)

// Index has policies, and finds the policies that select a set of labels without a look at the
// others. Each selection of pods is at one anchor or, for a label with several values, at an anchor
// for each: the narrowest condition that all of its pods meet. A pod has few possible anchors.
//
// An Index is not for concurrent use while it is changed.
type Index struct {
	policies map[policy.Key]*policy.Policy
	at       map[anchor]map[use]struct{}
}

// use is a place of a policy that selects pods.
type use struct {
	policy *policy.Policy
	// pods is the subject, or a peer of a rule.
	pods *policy.Pods
}

// anchor is a condition on a pod: on the namespace and on the labels of the pod.
type anchor struct {
	namespace, labels condition
}

// condition is a label with a value, a label with any value, the name of a namespace, or, empty,
// no condition.
type condition struct {
	kind       conditionKind
	key, value string
}

type conditionKind uint8

const (
	anything conditionKind = iota
	named
	labelled
	valued
)

// NewIndex returns an empty Index.
func NewIndex() *Index {
	return &Index{policies: map[policy.Key]*policy.Policy{}, at: map[anchor]map[use]struct{}{}}
}

// Put adds a policy, or replaces the policy of its key. The row must not change afterwards.
func (x *Index) Put(p *policy.Policy) {
	x.Delete(p.Key)
	x.policies[p.Key] = p
	for one := range uses(p) {
		for _, at := range anchors(one.pods) {
			if x.at[at] == nil {
				x.at[at] = map[use]struct{}{}
			}
			x.at[at][one] = struct{}{}
		}
	}
}

// Delete removes the policy of a key, if there is one.
func (x *Index) Delete(key policy.Key) {
	p := x.policies[key]
	if p == nil {
		return
	}
	delete(x.policies, key)
	for one := range uses(p) {
		for _, at := range anchors(one.pods) {
			delete(x.at[at], one)
			if len(x.at[at]) == 0 {
				delete(x.at, at)
			}
		}
	}
}

// Subjects returns the policies that apply to a pod, in the order of the judgement.
func (x *Index) Subjects(pod *Identity) []*policy.Policy {
	var found []*policy.Policy
	for one := range x.selecting(pod) {
		if one.pods == &one.policy.Subject && AppliesTo(one.policy, pod) {
			found = append(found, one.policy)
		}
	}
	return Ordered(found)
}

// Changed returns the policies whose subjects or peers a pod becomes or ceases to be, in their
// order. One of before and after may be nil, for a new pod and a deleted pod.
func (x *Index) Changed(before, after *Identity) []*policy.Policy {
	old, now := x.selecting(before), x.selecting(after)
	found := map[*policy.Policy]struct{}{}
	moved := before == nil || after == nil || before.VPC != after.VPC || before.Network != after.Network ||
		!slices.Equal(before.Ports, after.Ports)
	for one := range old {
		if _, same := now[one]; !same || moved {
			found[one.policy] = struct{}{}
		}
	}
	for one := range now {
		if _, same := old[one]; !same {
			found[one.policy] = struct{}{}
		}
	}
	return Ordered(slices.Collect(maps.Keys(found)))
}

// selecting returns the places that select a pod.
func (x *Index) selecting(pod *Identity) map[use]struct{} {
	found := map[use]struct{}{}
	if pod == nil {
		return found
	}
	for _, namespace := range conditions(pod.Namespace, pod.NamespaceLabels) {
		for _, labels := range conditions("", pod.Labels) {
			for one := range x.at[anchor{namespace, labels}] {
				if Includes(one.pods, pod) {
					found[one] = struct{}{}
				}
			}
		}
	}
	return found
}

// conditions returns the conditions that labels meet, and the name, unless it is "".
func conditions(name string, labels map[string]string) []condition {
	all := []condition{{}}
	if name != "" {
		all = append(all, condition{kind: named, key: name})
	}
	for key, value := range labels {
		all = append(all, condition{kind: labelled, key: key}, condition{kind: valued, key: key, value: value})
	}
	return all
}

// anchors returns the anchors of a selection.
func anchors(pods *policy.Pods) (all []anchor) {
	namespaces := narrowest(pods.Namespaces)
	if pods.Namespace != "" {
		namespaces = []condition{{kind: named, key: pods.Namespace}}
	}
	for _, namespace := range namespaces {
		for _, labels := range narrowest(pods.Pods) {
			all = append(all, anchor{namespace, labels})
		}
	}
	return all
}

// narrowest returns conditions; each set of labels that a selector selects meets one of them.
func narrowest(selector policy.Selector) []condition {
	best := []condition{{}}
	for _, r := range selector {
		switch {
		case r.Operator == policy.In && (best[0].kind != valued || len(r.Values) < len(best)):
			best = nil
			for _, value := range r.Values {
				best = append(best, condition{kind: valued, key: r.Key, value: value})
			}
		case r.Operator == policy.Exists && best[0].kind == anything:
			best = []condition{{kind: labelled, key: r.Key}}
		}
	}
	return best
}

// uses yields the places of a policy that select pods.
func uses(p *policy.Policy) func(yield func(use) bool) {
	return func(yield func(use) bool) {
		if !yield(use{p, &p.Subject}) {
			return
		}
		for _, rules := range p.Rules {
			for i := range rules {
				for _, peer := range rules[i].Peers {
					if peer.Pods != nil && !yield(use{p, peer.Pods}) {
						return
					}
				}
			}
		}
	}
}

// Ordered sorts policies: by tier and priority. The names decide between equal priorities, which
// the specification leaves open, so that all nodes decide alike.
func Ordered(list []*policy.Policy) []*policy.Policy {
	slices.SortFunc(list, func(a, b *policy.Policy) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Priority, b.Priority),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}
