// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nmstate

// Reference names a policy of either kind.
type Reference struct{ Kind, Name string }

// String returns the name of the policy as an owner of fields: "<kind>/<name>".
func (r Reference) String() string { return r.Kind + "/" + r.Name }

// PolicySpec is the specification of a policy of either kind, as the rules of package policy
// read it.
type PolicySpec struct {
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

// Unavailable is a number of nodes, or a percentage like 50%; "" for the default
// (policy.DefaultUnavailable).
type Unavailable string

// Toleration is a toleration of a pod's specification, without seconds.
type Toleration struct {
	// Key "" with the operator Exists is all keys.
	Key string
	// Operator is Exists or Equal; "" is Equal.
	Operator string
	Value    string
	// Effect "" is all effects.
	Effect string
}

// Affinity has the required terms of a node affinity. A node has to meet one of them.
type Affinity struct{ Terms []Term }

// Term has requirements. A node has to meet all of them; no node meets a term without any.
type Term struct {
	Labels []Requirement
	Fields []Requirement
}

// Requirement is about a label, or about the field metadata.name.
type Requirement struct {
	Key      string
	Operator string
	Values   []string
}

// MatchRule selects the interfaces that have everything it names. An empty rule selects none.
type MatchRule struct {
	Name string
	Type string
	// VLANID is 1 to 4094, and 0 for any.
	VLANID int
}
