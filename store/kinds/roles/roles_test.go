// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/roles"
)

func TestConvertMember_Object_RowRead(t *testing.T) {
	got, err := Member.Convert(&v1alpha1.RoleMember{
		ObjectMeta: metav1.ObjectMeta{Name: "s-uid.00", UID: "m"},
		Spec: v1alpha1.RoleMemberSpec{
			Role: v1alpha1.RoleBouncer, VPC: "v", VPCUID: "v-uid", Subnet: "s", SubnetUID: "s-uid",
			Node: "n", NodeUID: "n-uid", Stage: v1alpha1.StageServing, Revision: 7,
		},
		Status: v1alpha1.RoleMemberStatus{Complete: true},
	})
	want := &roles.Member{
		Meta: store.Meta{UID: "m"}, Name: "s-uid.00", VPC: "v", VPCUID: "v-uid", Subnet: "s", SubnetUID: "s-uid",
		Node: "n", NodeUID: "n-uid", Stage: roles.Serving, Revision: 7, Complete: true,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, row (-want +got):\n%s", err, diff)
	}
	if got.Key() != "s-uid" || (&roles.Member{VPCUID: "v-uid"}).Key() != "v-uid" {
		t.Errorf("a bouncer's role is that of %s", got.Key())
	}
}

// TestNodeRoles_Owner_ItsNodeOrNone: a report that has no such owner is of no node.
func TestNodeRoles_Owner_ItsNodeOrNone(t *testing.T) {
	for name, c := range map[string]struct {
		owner metav1.OwnerReference
		want  string
	}{
		"its Node":     {metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}, "u"},
		"another Node": {metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "m", UID: "u"}, ""},
		"a Pod":        {metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "n", UID: "u"}, ""},
	} {
		got, err := NodeRoles.Convert(&v1alpha1.NodeRoles{
			ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: []metav1.OwnerReference{c.owner}},
			Spec:       v1alpha1.NodeRolesSpec{Protocol: 1, VPCs: []v1alpha1.ListedMembers{{UID: "v", Revision: 3}}},
		})
		want := &roles.NodeRoles{Name: "n", NodeUID: c.want, Protocol: 1, Listed: map[string]int64{"v": 3}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, row (-want +got):\n%s", name, err, diff)
		}
	}
}
