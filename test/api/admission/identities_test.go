// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func policyIdentity(number int32) *v1alpha1.PolicyIdentity {
	return &v1alpha1.PolicyIdentity{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyIdentityName("v", uint32(number)), Finalizers: []string{"alioth.dev/in-use"}},
		Spec: v1alpha1.PolicyIdentitySpec{
			VPC: "v", Number: number, Namespace: "customer", Labels: []v1alpha1.PolicyIdentityLabel{{Key: "app", Value: "web"}},
		},
	}
}

// TestPolicyIdentity_WriterNotOperator_Refused: nodes believe which labels a number stands for, and an
// early end of its finalizer would let it stand for others.
func TestPolicyIdentity_WriterNotOperator_Refused(t *testing.T) {
	start(t)
	held := policyIdentity(4711)
	create(t, as(t, operator()), held)
	patched := func(patch string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, held.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
		}
	}
	deleted := func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, held.DeepCopy(), client.Preconditions{UID: &held.UID}, client.DryRunAll)
	}
	const refused = "only the Alioth operator writes PolicyIdentities"
	const released, relabelled = `{"metadata":{"finalizers":null}}`, `{"spec":{"labels":[{"key":"app","value":"db"}]}}`
	run(t, slices.Concat(
		creations(t, "by the operator", operator(), policyIdentity(4712), ""),
		creations(t, "by an administrator", clusterAdmin(), policyIdentity(4712), refused),
		creations(t, "by a daemon", daemonOn("node-a"), policyIdentity(4712), "cannot"),
		[]attempt{
			{"the finalizer, by the operator", operator(), patched(released), ""},
			{"the finalizer, by an administrator", clusterAdmin(), patched(released), refused},
			{"the finalizer, by a daemon", daemonOn("node-a"), patched(released), "cannot"},
			{"other labels, by the operator", operator(), patched(relabelled), "a PolicyIdentity can't change"},
			{"deleted by the operator", operator(), deleted, ""},
			{"deleted by an administrator", clusterAdmin(), deleted, refused},
			{"deleted by a daemon", daemonOn("node-a"), deleted, "cannot"},
			{"an update, by the operator", operator(), func(ctx context.Context, c client.Client) error {
				return c.Update(ctx, held.DeepCopy(), client.DryRunAll)
			}, "cannot update"},
		},
	))
}
