// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"github.com/alioth-net/alioth/store/rows/policy"
)

// Applies reports whether a policy selects an interface.
func Applies(p *policy.Policy, pod *Identity) bool {
	return AppliesTo(p, pod) && Includes(&p.Subject, pod)
}

// Answer is the answer to the question whether a selection includes a pod.
type Answer uint8

// Answers. Undecided means that it depends on a label with an omitted key.
const (
	No Answer = iota
	Undecided
	Yes
)

// Selects compares a pod with a selection. omitted reports whether the pod has a label with the key
// whose value is not known. The caller compares VPC and network.
func Selects(pods *policy.Pods, pod *Identity, omitted func(key string) bool) Answer {
	if pods.Namespace != "" && pods.Namespace != pod.Namespace || !meets(pods.Namespaces, pod.NamespaceLabels) {
		return No
	}
	answer := Yes
	for i := range pods.Pods {
		switch r := &pods.Pods[i]; {
		case omitted(r.Key):
			answer = min(answer, answerOmitted(r))
		case !meetsOne(r, pod.Labels):
			return No
		}
	}
	return answer
}

// answerOmitted answers for a pod that has the label of a requirement with an unknown value.
func answerOmitted(r *policy.Requirement) Answer {
	switch r.Operator {
	case policy.Exists:
		return Yes
	case policy.DoesNotExist:
		return No
	}
	return Undecided
}

// Includes reports whether the pods of a selection include one. The caller compares VPC and network.
func Includes(pods *policy.Pods, pod *Identity) bool {
	return Selects(pods, pod, func(string) bool { return false }) == Yes
}

// AppliesTo reports whether a policy applies to the VPC or network of an interface.
func AppliesTo(p *policy.Policy, pod *Identity) bool {
	if p.Kind != policy.MultiNetworkPolicy {
		return pod.Network == ""
	}
	return pod.Network != "" && slices.Contains(p.Networks, pod.Network)
}

// meets reports whether labels meet all requirements.
func meets(selector policy.Selector, labels map[string]string) bool {
	for i := range selector {
		if !meetsOne(&selector[i], labels) {
			return false
		}
	}
	return true
}

func meetsOne(r *policy.Requirement, labels map[string]string) bool {
	value, ok := labels[r.Key]
	switch r.Operator {
	case policy.In:
		return ok && slices.Contains(r.Values, value)
	case policy.NotIn:
		return !ok || !slices.Contains(r.Values, value)
	case policy.Exists:
		return ok
	case policy.DoesNotExist:
		return !ok
	}
	return false
}
