// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// Effects of taints that keep a policy away (Kubernetes, "Taints and Tolerations").
const (
	NoSchedule = "NoSchedule"
	NoExecute  = "NoExecute"
)

// Operators of requirements and tolerations, as in Kubernetes.
const (
	In           = "In"
	NotIn        = "NotIn"
	Exists       = "Exists"
	DoesNotExist = "DoesNotExist"
	Gt           = "Gt"
	Lt           = "Lt"
	Equal        = "Equal"
)

// Manual is the owner of fields that were set by hand.
const Manual = "manual"

// Taint is a taint of a node.
type Taint struct{ Key, Value, Effect string }

// Node holds the facts of a node that a policy can match: labels, taints, readiness and state.
type Node struct {
	Name   string
	Labels map[string]string
	Taints []Taint
	// Down: the Node is not Ready. Its kubelet and Kubernetes say so, and not its daemon.
	Down bool
	// Current is the node's current state, nil if it is not known.
	Current map[string]any
}
