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

// Manual is the owner of what was set by hand.
const Manual = "manual"

// Taint is a taint of a node.
type Taint struct{ Key, Value, Effect string }

// Toleration is that of a pod's specification, without seconds.
type Toleration struct {
	// Key "" with Exists is all keys.
	Key string
	// Operator is Exists or Equal; "" is Equal.
	Operator string
	Value    string
	// Effect "" is all effects.
	Effect string
}

// Node is what a policy can ask of a node.
type Node struct {
	Name   string
	Labels map[string]string
	Taints []Taint
	// Down: the Node is not Ready. Its kubelet and Kubernetes say so, and not its daemon.
	Down bool
	// Current is the node's current state, nil if it is not known.
	Current map[string]any
}

// Requirement is of a label, or of the field metadata.name.
type Requirement struct {
	Key      string
	Operator string
	Values   []string
}

// Term has requirements that must all be met. One without any is met by no node.
type Term struct {
	Labels []Requirement
	Fields []Requirement
}

// Affinity has the required terms of a node affinity, one of which must be met.
type Affinity struct{ Terms []Term }

// MatchRule selects interfaces: all that it has must be so. One without anything selects
// none.
type MatchRule struct {
	Name string
	Type string
	// VLANID is 1 to 4094, and 0 for any.
	VLANID int
}

// Reference names a policy.
type Reference struct{ Kind, Name string }

// String is the name of an owner: "<kind>/<name>".
func (r Reference) String() string { return r.Kind + "/" + r.Name }

// Policy is what this package needs of a policy of any kind.
type Policy struct {
	Reference
	UID        string
	Generation int64
	Priority   int32
	// Selector has labels that a node must have.
	Selector map[string]string
	// Affinity is nil if the policy has none.
	Affinity    *Affinity
	Tolerations []Toleration
	// IgnoreTaints: no taint keeps the policy away. A NodeNetworkConfigurationPolicy
	// without tolerations is so, as in kubernetes-nmstate.
	IgnoreTaints bool
	// Match selects interfaces; nil if the policy has no rules.
	Match []MatchRule
	// Desired is the desired state.
	Desired map[string]any
	// Reach are targets that a node has to reach after a change.
	Reach []string
}
