// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of policies, states and enactments. Of a policy's Available, Degraded,
// Progressing and Ignored one is True. Of an enactment's Available, Failing, Pending,
// Progressing and Aborted one is True.
const (
	// AvailableCondition: the nodes, or the node, have the desired state.
	AvailableCondition = "Available"
	// DegradedCondition (policy): at least one node failed.
	DegradedCondition = "Degraded"
	// ProgressingCondition (policy, enactment): nodes change, or wait to change.
	ProgressingCondition = "Progressing"
	// IgnoredCondition (policy): the policy selects no node.
	IgnoredCondition = "Ignored"
	// FailingCondition (state, enactment): the node does not have the desired state. A node
	// tries again.
	FailingCondition = "Failing"
	// PendingCondition (enactment): the node waits for a slot.
	PendingCondition = "Pending"
	// AbortedCondition (enactment): the node does not change, because too many others
	// failed.
	AbortedCondition = "Aborted"
	// ConflictCondition (policy, state) is True while a policy does not have a field that it
	// sets, because another policy or the desired state set by hand has it. The message
	// names both.
	ConflictCondition = "Conflict"
	// ForeignCondition (state) is True while the desired state has interfaces that another
	// program manages. They stay as they are, and the message names them.
	ForeignCondition = "ManagedByOthers"
	// NotRestoredCondition (state) is True after a change that was undone without the whole
	// state before, until a later change succeeds. The message lists the missing parts.
	NotRestoredCondition = "NotRestored"
)

// Reasons of these conditions.
const (
	// SuccessfullyConfiguredReason (Available): the desired state is there.
	SuccessfullyConfiguredReason = "SuccessfullyConfigured"
	// FailedToConfigureReason (Degraded, Failing): the message has the cause.
	FailedToConfigureReason = "FailedToConfigure"
	// ConfigurationLostReason (Degraded, Failing): a node had the desired state, and lacks it since.
	// It counts for no roll-out. The message has the cause.
	ConfigurationLostReason = "ConfigurationLost"
	// ConfigurationProgressingReason (Progressing): a node changes.
	ConfigurationProgressingReason = "ConfigurationProgressing"
	// NoMatchingNodeReason (Ignored): no node has the labels, or all have taints that the
	// policy does not tolerate.
	NoMatchingNodeReason = "NoMatchingNode"
	// MaxUnavailableLimitReachedReason (Pending): the permitted number of nodes change already.
	MaxUnavailableLimitReachedReason = "MaxUnavailableLimitReached"
	// ConfigurationAbortedReason (Degraded, Aborted): more nodes failed than may change at a
	// time, so no further node begins.
	ConfigurationAbortedReason = "ConfigurationAborted"
	// RefusedReason (Degraded, Failing): the desired state can't be; the message has the
	// path of the field.
	RefusedReason = "Refused"
	// UnmanagedReason (state, Available False): spec.managed is false.
	UnmanagedReason = "Unmanaged"
	// OverruledReason (Conflict): others have fields that the policy sets.
	OverruledReason = "Overruled"
	// NoConflictReason (Conflict False): every policy has the fields that it sets.
	NoConflictReason = "NoConflict"
	// NetworkManagerReason and NetworkdReason (ManagedByOthers) are the other program.
	NetworkManagerReason = "NetworkManager"
	NetworkdReason       = "Networkd"
	// IncompleteReason (NotRestored): the missing parts can't exist any longer.
	IncompleteReason = "Incomplete"
	// GivenUpReason (NotRestored): the kernel refused the restoration in many tries.
	GivenUpReason = "GivenUp"
)

// Kinds of policies.
const (
	NodeNetConfPolicyKind              = "NodeNetConfPolicy"
	NodeNetworkConfigurationPolicyKind = "NodeNetworkConfigurationPolicy"
)

// Labels of enactments.
const (
	// PolicyLabel is the name of the policy, as package v1beta1 makes the value of a label.
	PolicyLabel = "nmstate.io/policy"
	// NodeLabel is the name of the node, in the same form.
	NodeLabel = "nmstate.io/node"
)
