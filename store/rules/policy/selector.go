// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"github.com/alioth-net/alioth/store/rows/policy"
)

// Applies reports whether a policy applies to an interface.
func Applies(p *policy.Policy, pod *Identity) bool {
	return appliesTo(p, pod) && Selects(&p.Subject, pod)
}

// Selects reports whether the pods of a selection include one. The caller compares VPC and network.
func Selects(pods *policy.Pods, pod *Identity) bool {
	if pods.Namespace != "" && pods.Namespace != pod.Namespace {
		return false
	}
	return meets(pods.Namespaces, pod.NamespaceLabels) && meets(pods.Pods, pod.Labels)
}

// appliesTo reports whether a policy applies to the VPC or network of an interface.
func appliesTo(p *policy.Policy, pod *Identity) bool {
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
