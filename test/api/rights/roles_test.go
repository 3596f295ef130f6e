// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// bounce has the operator make a bouncer of the node, take it into service and let it go.
func bounce(t *testing.T, admin client.Client, node *corev1.Node, subnet *v1alpha1.Subnet) {
	t.Helper()
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	report := &v1alpha1.NodeRoles{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: owner},
		Spec:       v1alpha1.NodeRolesSpec{Protocol: v1alpha1.RoleProtocol},
	}
	if err := admin.Create(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	patch := func(object client.Object, writer client.SubResourceWriter, change func()) {
		t.Helper()
		before := object.DeepCopyObject().(client.Object)
		change()
		var err error
		if writer == nil {
			err = admin.Patch(t.Context(), object, client.MergeFrom(before))
		} else {
			err = writer.Patch(t.Context(), object, client.MergeFrom(before))
		}
		if err != nil {
			t.Fatalf("patch %T: %v", object, err)
		}
	}
	reply := &v1alpha1.RollCall{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: v1alpha1.NodeRollCall(node.Name)}, reply); err != nil {
		t.Fatal(err)
	}
	patch(reply, nil, func() { reply.OwnerReferences, reply.Spec.Call = owner, name })
	patch(node, nil, func() { node.Labels = map[string]string{v1alpha1.RoleNodeLabel: "true"} })
	patch(subnet, nil, func() { subnet.Spec.Bouncers = ptr.To[int32](1) })
	member := &v1alpha1.RoleMember{}
	member.Name = v1alpha1.RoleMemberName(string(subnet.UID), node.Name)
	stage := func(want v1alpha1.Stage) {
		t.Helper()
		until(t, "the bouncer is "+string(want), func(ctx context.Context) (bool, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(member), member)
			return member.Spec.Stage == want, client.IgnoreNotFound(err)
		})
	}
	stage(v1alpha1.StageJoining)
	patch(member, admin.Status(), func() { member.Status.Complete = true })
	stage(v1alpha1.StageServing)
	patch(subnet, nil, func() { subnet.Spec.Bouncers = nil })
	stage(v1alpha1.StageLeaving)
	patch(report, nil, func() {
		report.Spec.VPCs = []v1alpha1.ListedMembers{{UID: member.Spec.VPCUID, Revision: member.Spec.Revision}}
	})
	until(t, "the bouncer is gone", func(ctx context.Context) (bool, error) {
		var list v1alpha1.RoleMemberList
		err := admin.List(ctx, &list)
		return len(list.Items) == 0, err
	})
	for _, object := range []client.Object{reply, report} {
		if err := admin.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}
