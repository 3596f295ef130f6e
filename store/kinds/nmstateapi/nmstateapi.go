// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nmstateapi

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/alioth-net/alioth/api/nmstate/document"
	"github.com/alioth-net/alioth/api/nmstate/reach"
	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/descriptor"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/values"
	"github.com/alioth-net/alioth/store/rows/nmstate"
)

// NodeNetworkState is the kind of a node's network. A node follows its own, and no pod
// waits for it.
var NodeNetworkState = descriptor.Define(&all, descriptor.Description[*nmstatev1beta1.NodeNetworkState, nmstate.State]{
	Name: "NodeNetworkState", Object: &nmstatev1beta1.NodeNetworkState{}, List: &nmstatev1beta1.NodeNetworkStateList{},
	Convert: convertNodeNetworkState, Optional: true,
	Table: descriptor.ByName(nmstate.GetState, nmstate.PutState, nmstate.DeleteState),
	OnNode: func(node string) descriptor.Scope {
		scope := descriptor.WithField("metadata.name")(node)
		scope.Unawaited = true
		return scope
	},
	Verdict: func(row *nmstate.State) descriptor.Verdict {
		return descriptor.Verdict{
			ID:      descriptor.ID{Name: row.Name, UID: row.UID},
			Ready:   !row.Failing,
			Reason:  row.Reason,
			Message: row.Message,
		}
	},
	Rows: nmstate.States,
})

func convertNodeNetworkState(in *nmstatev1beta1.NodeNetworkState) (*nmstate.State, error) {
	row := &nmstate.State{
		Meta: values.Meta(in), Name: in.Name, Managed: in.Spec.Managed == nil || *in.Spec.Managed,
		ObservedGeneration: in.Status.ObservedDesiredGeneration, Reach: targets(in.Spec.Reach),
		PolicyReach: targets(in.Spec.PolicyReach),
	}
	var invalid values.Faults
	row.Desired = readNormal("spec.desiredState", in.Spec.DesiredState, &invalid)
	row.FromPolicies = readNormal("spec.policyState", in.Spec.PolicyState, &invalid)
	row.Current = readDocument("status.currentState", in.Status.CurrentState, &invalid)
	row.Invalid = invalid.String()
	for _, part := range in.Spec.Parts {
		row.Parts = append(row.Parts, nmstate.Part{Paths: part.Paths, Reach: part.Reach})
	}
	for _, failure := range in.Status.Failures {
		row.Failures = append(
			row.Failures,
			nmstate.Failure{Path: failure.Path, Message: quote.Bounded(failure.Message, nmstatev1beta1.MaxFailure)},
		)
	}
	row.Available = meta.IsStatusConditionTrue(in.Status.Conditions, nmstatev1.AvailableCondition)
	row.Failing = meta.IsStatusConditionTrue(in.Status.Conditions, nmstatev1.FailingCondition)
	row.Reason, row.Message = telling(in.Status.Conditions, nmstatev1.FailingCondition, nmstatev1.AvailableCondition)
	return row, nil
}

// telling returns reason and message of the first of some conditions that is true, or of
// the last one if none is.
func telling(conditions []metav1.Condition, types ...string) (reason, message string) {
	for _, one := range types {
		condition := meta.FindStatusCondition(conditions, one)
		if condition == nil {
			continue
		}
		reason, message = quote.Bounded(condition.Reason, quote.MaxQuoted), quote.Message(condition.Message)
		if condition.Status == metav1.ConditionTrue {
			break
		}
	}
	return reason, message
}

// readDocument reads a JSON object; nil for none, and for one that can't be read.
func readDocument(path string, raw *runtime.RawExtension, invalid *values.Faults) map[string]any {
	if raw == nil || len(raw.Raw) == 0 {
		return nil
	}
	var object map[string]any
	if err := json.Unmarshal(raw.Raw, &object); err != nil {
		invalid.Add("%s: expected an object: %v", path, quote.Error(err))
		return nil
	}
	return object
}

// readNormal does the same as readDocument for a document that is compared with others: people
// write a desired state in several forms, and earlier versions kept these.
func readNormal(path string, raw *runtime.RawExtension, invalid *values.Faults) map[string]any {
	return document.Normal(readDocument(path, raw, invalid))
}

// NodeNetConfPolicy is the kind of a policy of the early design of kubernetes-nmstate.
var NodeNetConfPolicy = definePolicy(
	nmstatev1.NodeNetConfPolicyKind,
	&nmstatev1.NodeNetConfPolicy{},
	&nmstatev1.NodeNetConfPolicyList{},
	func(in *nmstatev1.NodeNetConfPolicy) (*nmstate.Policy, *runtime.RawExtension, []metav1.Condition) {
		row := &nmstate.Policy{Spec: precedence(in.Spec.Precedence), Keep: in.Spec.KeepOnDelete, LastSlot: in.Status.LastSlot}
		row.Spec.Tolerations, row.Spec.Reach = tolerations(in.Spec.Tolerations), targets(in.Spec.Reach)
		for _, rule := range in.Spec.MatchRules {
			row.Spec.Match = append(
				row.Spec.Match,
				nmstate.MatchRule{Name: rule.Name, Type: rule.Type, VLANID: int(rule.VLANID)},
			)
		}
		return row, in.Spec.DesiredState, in.Status.Conditions
	},
)

// NodeNetworkConfigurationPolicy is the kind of a policy of today's kubernetes-nmstate.
var NodeNetworkConfigurationPolicy = definePolicy(nmstatev1.NodeNetworkConfigurationPolicyKind,
	&nmstatev1.NodeNetworkConfigurationPolicy{}, &nmstatev1.NodeNetworkConfigurationPolicyList{},
	func(in *nmstatev1.NodeNetworkConfigurationPolicy) (*nmstate.Policy, *runtime.RawExtension, []metav1.Condition) {
		row := &nmstate.Policy{
			Spec:     precedence(in.Spec.Precedence),
			Keep:     in.Spec.KeepOnDelete,
			Capture:  in.Spec.Capture,
			LastSlot: in.Status.LastSlot,
		}
		row.Spec.Selector = in.Spec.NodeSelector
		row.Spec.Tolerations, row.Spec.Reach = tolerations(in.Spec.Tolerations), targets(in.Spec.Reach)
		row.Spec.IgnoreTaints = len(in.Spec.Tolerations) == 0
		if in.Spec.MaxUnavailable != nil {
			row.Unavailable = nmstate.Unavailable(in.Spec.MaxUnavailable.String())
		}
		return row, in.Spec.DesiredState, in.Status.Conditions
	})

// definePolicy makes a kind of policies. Every node follows all of them: which ones are for
// it is decided by its labels and taints, which change.
func definePolicy[O kube.Object](kind string, object O, list kube.List,
	read func(O) (*nmstate.Policy, *runtime.RawExtension, []metav1.Condition),
) descriptor.Of[O, nmstate.Policy] {
	ref := func(name string) nmstate.Reference { return nmstate.Reference{Kind: kind, Name: name} }
	return descriptor.Define(&all, descriptor.Description[O, nmstate.Policy]{
		Name: kind, Object: object, List: list, Optional: true,
		Convert: func(in O) (*nmstate.Policy, error) {
			row, desired, conditions := read(in)
			row.Meta = values.Meta(in)
			row.Spec.Reference, row.Spec.UID, row.Spec.Generation = ref(in.GetName()), row.UID, row.Generation
			var fault values.Faults
			row.Spec.Desired = readDocument("spec.desiredState", desired, &fault)
			if _, err := reach.ParseList("spec.reach", row.Spec.Reach); err != nil {
				fault.Add("%v", quote.Error(err))
			}
			row.Fault = fault.String()
			readPolicyStatus(row, conditions)
			return row, nil
		},
		Table: descriptor.Table[nmstate.Policy]{
			Get: func(tx store.ReadTx, id descriptor.ID) *nmstate.Policy { return nmstate.GetPolicy(tx, ref(id.Name)) },
			Put: nmstate.PutPolicy,
			Remove: func(tx store.Tx, id descriptor.ID) {
				nmstate.DeletePolicy(tx, ref(id.Name), id.UID)
			},
		},
		Owns:   func(row *nmstate.Policy) bool { return row.Spec.Kind == kind },
		OnNode: func(string) descriptor.Scope { return descriptor.Scope{Unawaited: true} },
		Verdict: func(row *nmstate.Policy) descriptor.Verdict {
			return descriptor.Verdict{
				ID:      descriptor.ID{Name: row.Spec.Name, UID: row.UID},
				Ready:   !row.Degraded,
				Reason:  row.Reason,
				Message: row.Message,
			}
		},
		Rows: nmstate.Policies,
	})
}

func readPolicyStatus(row *nmstate.Policy, conditions []metav1.Condition) {
	row.Degraded = meta.IsStatusConditionTrue(conditions, nmstatev1.DegradedCondition)
	row.Reason, row.Message = telling(conditions, nmstatev1.DegradedCondition, nmstatev1.ProgressingCondition,
		nmstatev1.IgnoredCondition, nmstatev1.AvailableCondition)
	degraded := meta.FindStatusCondition(conditions, nmstatev1.DegradedCondition)
	row.Aborted = degraded != nil && degraded.Status == metav1.ConditionTrue &&
		degraded.Reason == nmstatev1.ConfigurationAbortedReason && degraded.ObservedGeneration == row.Generation
}

func precedence(in nmstatev1.Precedence) nmstate.PolicySpec {
	row := nmstate.PolicySpec{Priority: in.Priority}
	if in.Affinity != nil {
		row.Affinity = NodeAffinity(in.Affinity.NodeAffinity)
	}
	return row
}

// NodeAffinity reads the required terms of an affinity to nodes. It returns nil without terms.
func NodeAffinity(in *corev1.NodeAffinity) *nmstate.Affinity {
	if in == nil || in.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	all := &nmstate.Affinity{}
	for _, term := range in.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		all.Terms = append(
			all.Terms,
			nmstate.Term{Labels: requirements(term.MatchExpressions), Fields: requirements(term.MatchFields)},
		)
	}
	return all
}

func requirements(in []corev1.NodeSelectorRequirement) []nmstate.Requirement {
	var list []nmstate.Requirement
	for _, one := range in {
		list = append(list, nmstate.Requirement{Key: one.Key, Operator: string(one.Operator), Values: one.Values})
	}
	return list
}

func tolerations(in []corev1.Toleration) []nmstate.Toleration {
	var list []nmstate.Toleration
	for _, one := range in {
		list = append(
			list,
			nmstate.Toleration{Key: one.Key, Operator: string(one.Operator), Value: one.Value, Effect: string(one.Effect)},
		)
	}
	return list
}

func targets(in []nmstatev1.ReachTarget) []string {
	var list []string
	for _, one := range in {
		list = append(list, string(one))
	}
	return list
}

// NodeNetworkConfigurationEnactment is the kind of a policy's result on a node. A node follows
// its own.
var NodeNetworkConfigurationEnactment = descriptor.Define(
	&all,
	descriptor.Description[*nmstatev1beta1.NodeNetworkConfigurationEnactment, nmstate.Enactment]{
		Name: "NodeNetworkConfigurationEnactment", Object: &nmstatev1beta1.NodeNetworkConfigurationEnactment{},
		List: &nmstatev1beta1.NodeNetworkConfigurationEnactmentList{}, Convert: ConvertEnactment, Optional: true,
		Table: descriptor.ByName(nmstate.GetEnactment, nmstate.PutEnactment, nmstate.DeleteEnactment),
		OnNode: func(node string) descriptor.Scope {
			return descriptor.Scope{
				Labels: labels.SelectorFromSet(labels.Set{nmstatev1.NodeLabel: nmstatev1beta1.LabelValue(node)}), Unawaited: true,
			}
		},
	},
)

// ConvertEnactment converts an enactment. An enactment without a policy has no row, because its
// node is unknown. The same holds if the name does not fit the policy. It never fails.
func ConvertEnactment(in *nmstatev1beta1.NodeNetworkConfigurationEnactment) (*nmstate.Enactment, error) {
	ref := in.Status.Policy
	if ref == nil {
		return nil, nil
	}
	kinds := []string{nmstatev1.NodeNetConfPolicyKind, nmstatev1.NodeNetworkConfigurationPolicyKind}
	if err := values.Known("status.policy.kind", ref.Kind, kinds...); err != nil {
		return nil, fmt.Errorf("convert NodeNetworkConfigurationEnactment %s: %w", in.Name, err)
	}
	node, ok := nmstatev1beta1.NodeOfEnactment(in.Name, ref.Kind, ref.Name)
	if !ok {
		return nil, nil
	}
	row := &nmstate.Enactment{
		Meta: values.Meta(
			in,
		), Name: in.Name, Node: node, Policy: nmstate.Reference{Kind: ref.Kind, Name: ref.Name}, PolicyUID: ref.UID,
		PolicyGeneration: in.Status.PolicyGeneration, AppliedPriority: in.Status.AppliedPriority,
		Keep: in.Status.KeepOnDelete, Overruled: quote.Message(in.Status.Overruled),
	}
	readDocuments(row, &in.Status)
	for _, condition := range in.Status.Conditions {
		if condition.Status == metav1.ConditionTrue {
			row.Phase, row.Reason, row.Message = nmstate.Phase(
				condition.Type,
			), condition.Reason, quote.Message(
				condition.Message,
			)
			row.Since = condition.LastTransitionTime.Time
		}
	}
	if slot := in.Status.Slot; slot != nil {
		row.Slot = nmstate.Slot{
			Holder:     slot.Holder,
			Expires:    slot.Expires.Time,
			PolicyUID:  slot.PolicyUID,
			Generation: slot.Generation,
		}
	}
	return row, nil
}

func readDocuments(row *nmstate.Enactment, status *nmstatev1beta1.NodeNetworkConfigurationEnactmentStatus) {
	var invalid values.Faults
	row.Desired = readNormal("status.desiredState", status.DesiredState, &invalid)
	row.Applied = readNormal("status.appliedState", status.AppliedState, &invalid)
	row.Before = readNormal("status.stateBefore", status.StateBefore, &invalid)
	row.Undoing = readNormal("status.undoing", status.Undoing, &invalid)
	if trial := status.Trial; trial != nil {
		row.Trial = nmstate.Trial{
			Open: trial.Open, Former: readNormal("status.trial.formerState", trial.FormerState, &invalid),
			FormerPriority: trial.FormerPriority, Failures: int(trial.Failures),
			Seen: quote.Bounded(trial.Seen, quote.MaxQuoted),
		}
		if trial.Next != nil {
			row.Trial.Next = trial.Next.Time
		}
	}
	for name, captured := range status.CapturedStates {
		if row.Captured == nil {
			row.Captured = map[string]map[string]any{}
		}
		row.Captured[name] = readDocument(
			fmt.Sprintf("status.capturedStates[%s].state", quote.Name(name)),
			captured.State,
			&invalid,
		)
	}
	row.Invalid = invalid.String()
}
