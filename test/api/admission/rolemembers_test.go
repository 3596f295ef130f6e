// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

func memberOn(node string) *v1alpha1.RoleMember {
	return &v1alpha1.RoleMember{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.RoleMemberName("v-uid", node)},
		Spec: v1alpha1.RoleMemberSpec{
			Role: v1alpha1.RoleDivider, VPC: "v", VPCUID: "v-uid", Node: node, NodeUID: "u", Stage: v1alpha1.StageJoining, Revision: 1,
		},
	}
}

// TestDaemonRoleMember_OtherNode_Refused: a stolen token can make its own node serve without a
// table, and no other node.
func TestDaemonRoleMember_OtherNode_Refused(t *testing.T) {
	admin := start(t)
	create(t, admin, memberOn("node-a"))
	create(t, admin, memberOn("node-b"))
	patch := func(node, text string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return c.Status().Patch(ctx, memberOn(node), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
		}
	}
	const complete = `{"status": {"complete": true}}`
	changed := func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, memberOn("node-a"), client.RawPatch(types.MergePatchType, []byte(`{"spec": {"stage": "Serving"}}`)), client.DryRunAll)
	}
	removed := func(ctx context.Context, c client.Client) error {
		return c.Delete(ctx, memberOn("node-a"), client.DryRunAll)
	}
	run(t, []attempt{
		{"its own", daemonOn("node-a"), patch("node-a", complete), ""},
		{"another node's", daemonOn("node-a"), patch("node-b", complete), "on its own node only"},
		{"with a token of no node", daemonOn(""), patch("node-a", complete), "needs a token that is bound to its pod"},
		{"its stage", daemonOn("node-a"), changed, "cannot patch"},
		{"a daemon deletes", daemonOn("node-a"), removed, "cannot delete"},
		{"a daemon makes one", daemonOn("node-c"), creating(memberOn("node-c")), "cannot create"},
		{"a kubelet", kubelet(), patch("node-a", complete), "cannot patch"},
		{"a tenant", person("roles-tenant"), patch("node-a", complete), "cannot patch"},
		{"a tenant makes one", person("roles-tenant"), creating(memberOn("node-c")), "cannot create"},
		{"the operator makes one", operator(), creating(memberOn("node-c")), ""},
		{"the operator reports", operator(), patch("node-a", complete), "cannot patch"},
	})
}

// TestRoleMemberReport_OtherFields_Unchanged: with a finalizer the member would stay, and with
// another owner it would go with that.
func TestRoleMemberReport_OtherFields_Unchanged(t *testing.T) {
	admin := start(t)
	create(t, admin, memberOn("node-m"))
	const text = `{"metadata": {"finalizers": ["example.com/held"], "labels": {"a": "b"}, "annotations": {"a": "b"},
		"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}, "spec": {"stage": "Leaving"}, "status": {"complete": true}}`
	run(t, []attempt{{"everything by the status", daemonOn("node-m"), func(ctx context.Context, c client.Client) error {
		return c.Status().Patch(ctx, memberOn("node-m"), client.RawPatch(types.MergePatchType, []byte(text)))
	}, ""}})
	got := memberOn("node-m")
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(got), got); err != nil {
		t.Fatal(err)
	}
	if !got.Status.Complete || got.Spec.Stage != memberOn("node-m").Spec.Stage ||
		len(got.Finalizers)+len(got.Labels)+len(got.Annotations)+len(got.OwnerReferences) > 0 {
		t.Errorf("the member is %+v, want another status and nothing else", got)
	}
}

func TestDaemonNodeRoles_OtherNode_Refused(t *testing.T) {
	start(t)
	report := func(name string, change ...func(*v1alpha1.NodeRoles)) func(context.Context, client.Client) error {
		object := &v1alpha1.NodeRoles{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-a", UID: "u"}}},
			Spec:       v1alpha1.NodeRolesSpec{Protocol: 1, VPCs: []v1alpha1.ListedMembers{{UID: "v-uid", Revision: 3}}},
		}
		for _, edit := range change {
			edit(object)
		}
		return creating(object)
	}
	run(t, []attempt{
		{"its own", daemonOn("node-a"), report("node-a"), ""},
		{"another node's", daemonOn("node-a"), report("node-b"), "for its own node only"},
		{"with a token of no node", daemonOn(""), report("node-a"), "needs a token that is bound to its pod"},
		{"of nobody", daemonOn("node-a"), report("node-a", func(r *v1alpha1.NodeRoles) { r.OwnerReferences = nil }), "must have its Node as owner"},
		{
			"of another Node",
			daemonOn("node-a"),
			report("node-a", func(r *v1alpha1.NodeRoles) { r.OwnerReferences[0].Name = "node-b" }),
			"must have its Node as owner",
		},
		{
			"that nobody may delete",
			daemonOn("node-a"),
			report("node-a", func(r *v1alpha1.NodeRoles) { r.Finalizers = []string{"example.com/mine"} }),
			"must have its Node as owner",
		},
		{"one VPC twice", daemonOn("node-a"), report("node-a", func(r *v1alpha1.NodeRoles) { r.Spec.VPCs = append(r.Spec.VPCs, r.Spec.VPCs[0]) }), "Duplicate value"},
		{"a tenant", person("roles-tenant"), report("node-a"), "cannot create"},
		{"the operator", operator(), report("node-a"), "cannot create"},
	})
}
