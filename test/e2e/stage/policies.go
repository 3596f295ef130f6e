// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// NetworkPolicy is one of the desired state, a document in JSON, for a node or, with "", for
// all nodes.
func NetworkPolicy(name, node, desired string) *nmstatev1.NodeNetworkConfigurationPolicy {
	policy := &nmstatev1.NodeNetworkConfigurationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy.Spec.DesiredState = &runtime.RawExtension{Raw: []byte(desired)}
	policy.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	if node != "" {
		policy.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return policy
}

// AwaitPolicy waits until a condition of a policy is true, for the generation that it has,
// with these texts in its message.
func (e *Env) AwaitPolicy(
	t *testing.T,
	policy *nmstatev1.NodeNetworkConfigurationPolicy,
	condition string,
	texts ...string,
) {
	t.Helper()
	what := fmt.Sprintf("policy %s to be %s with %q", policy.Name, condition, texts)
	err := scene.Until(Within(t, Patience), what, func(ctx context.Context) (bool, string, error) {
		if err := e.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return false, "", err
		}
		found := meta.FindStatusCondition(policy.Status.Conditions, condition)
		done := found != nil && found.Status == metav1.ConditionTrue && found.ObservedGeneration == policy.Generation
		for _, text := range texts {
			done = done && strings.Contains(found.Message, text)
		}
		return done, fmt.Sprintf("%+v", policy.Status.Conditions), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// AwaitNoEnactment waits until a policy has left nothing of itself on a node.
func (e *Env) AwaitNoEnactment(t *testing.T, node, policy string) {
	t.Helper()
	name := nmstatev1beta1.EnactmentName(node, nmstatev1.NodeNetworkConfigurationPolicyKind, policy)
	enactment := &nmstatev1beta1.NodeNetworkConfigurationEnactment{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := e.WaitGone(Within(t, Patience), enactment); err != nil {
		t.Fatal(err)
	}
}

// AwaitState waits until the reported state of a node has a text, or not.
func (e *Env) AwaitState(t *testing.T, node, text string, there bool) {
	t.Helper()
	state := &nmstatev1beta1.NodeNetworkState{}
	err := scene.Until(
		Within(t, Patience),
		fmt.Sprintf("the state of %s to have %s: %v", node, text, there),
		func(ctx context.Context) (bool, string, error) {
			if err := e.Client.Get(ctx, client.ObjectKey{Name: node}, state); err != nil {
				return false, "", err
			}
			current := ""
			if state.Status.CurrentState != nil {
				current = string(state.Status.CurrentState.Raw)
			}
			return strings.Contains(current, text) == there, current, nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
}
