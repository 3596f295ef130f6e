// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// roleNode makes a node that is Ready and eligible and has replied to a roll call, and
// returns its report about roles.
func (r *rig) roleNode(name string) *v1alpha1.NodeRoles {
	r.t.Helper()
	node := newNode(name)
	node.Labels = map[string]string{v1alpha1.RoleNodeLabel: "true"}
	r.create(node)
	r.setReady(name, corev1.ConditionTrue)
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}}
	reply := &v1alpha1.RollCall{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(name), OwnerReferences: owner},
		Spec:       v1alpha1.RollCallSpec{Call: "roles"},
	}
	report := &v1alpha1.NodeRoles{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owner}, Spec: v1alpha1.NodeRolesSpec{Protocol: v1alpha1.RoleProtocol}}
	r.create(reply, report)
	r.t.Cleanup(func() {
		for _, object := range []client.Object{report, reply, node} {
			if err := r.Delete(context.WithoutCancel(r.t.Context()), object); client.IgnoreNotFound(err) != nil {
				r.t.Error(err)
			}
		}
	})
	return report
}

// members waits until the members of a VPC are in these stages, by node.
func (r *rig) members(vpc string, want map[string]v1alpha1.Stage) map[string]*v1alpha1.RoleMember {
	r.t.Helper()
	got := map[string]*v1alpha1.RoleMember{}
	r.eventually(func() error {
		var list v1alpha1.RoleMemberList
		if err := r.List(r.t.Context(), &list, client.MatchingFields{"spec.vpc": vpc}); err != nil {
			return err
		}
		clear(got)
		for i := range list.Items {
			got[list.Items[i].Spec.Node] = &list.Items[i]
		}
		same := len(got) == len(want)
		for node, stage := range want {
			same = same && got[node] != nil && got[node].Spec.Stage == stage
		}
		if !same {
			return fmt.Errorf("the members are %+v, want %v", list.Items, want)
		}
		return nil
	})
	return got
}

// bouncers makes a check of the bouncers of a Subnet and their condition.
func bouncers(reason string, wanted int32, nodes ...string) func(*v1alpha1.Subnet) error {
	return func(s *v1alpha1.Subnet) error {
		condition := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.RolesReadyCondition)
		if condition == nil || condition.Reason != reason || s.Status.Bouncers == nil || s.Status.Bouncers.Wanted != wanted ||
			!slices.Equal(s.Status.Bouncers.Nodes, nodes) {
			return fmt.Errorf("bouncers %+v, condition %+v; want %s, %d wanted and %v", s.Status.Bouncers, condition, reason, wanted, nodes)
		}
		return nil
	}
}

// TestBouncers_RealAPI_JoinServeAndLeave goes through the life of members on a real API
// server, with an operator that ends in between.
func TestBouncers_RealAPI_JoinServeAndLeave(t *testing.T) {
	r := newRig(t)
	reports := map[string]*v1alpha1.NodeRoles{"role-a": r.roleNode("role-a"), "role-b": r.roleNode("role-b")}
	stop := r.operate(judging())
	vpc, subnet := newVPC("bounced", nil, "10.210.0.0/16"), newSubnet("bounced", "bounced", "s", "10.210.1.0/24")
	subnet.Spec.Bouncers = new(int32)
	*subnet.Spec.Bouncers = 3
	r.create(vpc, subnet)

	sees(r, subnet, bouncers(v1alpha1.TooFewRoleNodesReason, 3))
	r.announced(subnet, v1alpha1.TooFewRoleNodesReason)
	change(r, subnet, func(s *v1alpha1.Subnet) { *s.Spec.Bouncers = 2 })
	sees(r, subnet, bouncers(v1alpha1.RolesJoiningReason, 2))
	joining := map[string]v1alpha1.Stage{"role-a": v1alpha1.StageJoining, "role-b": v1alpha1.StageJoining}
	for _, m := range r.members("bounced", joining) {
		m.Status.Complete = true
		if err := r.Status().Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	r.members("bounced", map[string]v1alpha1.Stage{"role-a": v1alpha1.StageServing, "role-b": v1alpha1.StageServing})
	sees(r, subnet, bouncers(v1alpha1.RolesServingReason, 2, "role-a", "role-b"))
	r.announced(subnet, v1alpha1.RolesServingReason)

	stop()
	change(r, subnet, func(s *v1alpha1.Subnet) { s.Spec.Bouncers = nil })
	r.operate(judging())
	leaving := r.members("bounced", map[string]v1alpha1.Stage{"role-a": v1alpha1.StageLeaving, "role-b": v1alpha1.StageLeaving})
	r.get(vpc)
	last := max(leaving["role-a"].Spec.Revision, leaving["role-b"].Spec.Revision)
	if vpc.Status.RolesRevision < last || leaving["role-a"].Spec.Revision == leaving["role-b"].Spec.Revision {
		t.Errorf("the VPC has revision %d, the members %d and %d; want one each, and none above that of the VPC",
			vpc.Status.RolesRevision, leaving["role-a"].Spec.Revision, leaving["role-b"].Spec.Revision)
	}
	for _, report := range reports {
		change(r, report, func(n *v1alpha1.NodeRoles) {
			n.Spec.VPCs = []v1alpha1.ListedMembers{{UID: string(vpc.UID), Revision: last}}
		})
	}
	r.members("bounced", nil)
	sees(r, subnet, func(s *v1alpha1.Subnet) error {
		if s.Status.Bouncers != nil || meta.FindStatusCondition(s.Status.Conditions, v1alpha1.RolesReadyCondition) != nil {
			return fmt.Errorf("the status still has bouncers: %+v", s.Status)
		}
		return nil
	})
}

// TestRoleMembers_NodesOfEarlierRelease_None: other nodes of VPCs with addresses on such nodes get
// none either. Such a node holds up no other VPC: a stolen one would stop all.
func TestRoleMembers_NodesOfEarlierRelease_None(t *testing.T) {
	r := newRig(t)
	r.roleNode("role-new")
	earlier := r.roleNode("role-old")
	r.delete(earlier)
	r.operate(judging())
	vpc, _ := r.tenantSubnet("unbounced", "10.203.1.0/24")
	pod, other := r.schedule(newPod("unbounced", "a", "n", ""), "role-old"), r.schedule(newPod("unbounced", "b", "n", ""), "role-new")
	sees(r, pod, hasReason(v1alpha1.AttachedReason))
	sees(r, other, hasReason(v1alpha1.AttachedReason))
	change(r, vpc, func(v *v1alpha1.VPC) { v.Spec.Dividers = ptr.To[int32](1) })
	elsewhere := newVPC("elsewhere", nil, "10.211.0.0/16")
	elsewhere.Spec.Dividers = ptr.To[int32](1)
	r.create(elsewhere)
	r.members("elsewhere", map[string]v1alpha1.Stage{"role-new": v1alpha1.StageJoining})
	sees(r, vpc, func(v *v1alpha1.VPC) error {
		condition := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.RolesReadyCondition)
		if condition == nil || condition.Reason != v1alpha1.NodesLackRolesReason {
			return fmt.Errorf("the condition is %+v, want %s", condition, v1alpha1.NodesLackRolesReason)
		}
		return nil
	})
	r.members("unbounced", nil)
	r.delete(elsewhere)
	r.gone(elsewhere)

	// Without its last address there it holds up nothing; the Subnet stays in use.
	held := r.held(string(pod.UID))
	if err := r.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	for _, address := range held {
		r.delete(&address)
	}
	r.members("unbounced", map[string]v1alpha1.Stage{"role-new": v1alpha1.StageJoining})
}

// judging returns a configuration that places roles.
func judging() Config {
	cfg := testConfig()
	cfg.ScaledEndpoints = true
	return cfg
}
