// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// everywhere are pods on all nodes, in both subnets.
func (e *env) everywhere(t *testing.T, tenant *scene.Tenant) []*corev1.Pod {
	t.Helper()
	var pods []*corev1.Pod
	for i, node := range append(append([]string{}, e.plain...), e.eligible...) {
		subnet := fmt.Sprintf(`{"subnet": "net%d"}`, 1+i%2)
		pods = append(pods, tenant.Pod("on-"+node, scene.OnNode(node), scene.WithNIC(subnet)))
	}
	e.Run(t, pods...)
	return pods
}

func TestBouncers_PodsOnAllNodes_Reach(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("bounced", 2, 0))
	pods := e.everywhere(t, tenant)
	e.served(t, tenant, e.eligible, nil)
	for _, node := range e.plain {
		e.relies(t, node, tenant)
	}
	e.reach(t, pods...)
	if path := e.trace(t, pods[0], scene.IP(pods[2], false)); !strings.Contains(path, "The packet gets through") {
		t.Errorf("the path of a packet:\n%s", path)
	}
}

func TestDividers_PodsOnAllNodes_Reach(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("divided", 0, 2))
	pods := e.everywhere(t, tenant)
	e.served(t, tenant, e.eligible, e.eligible)
	for _, node := range e.plain {
		e.relies(t, node, tenant)
	}
	e.reach(t, pods...)
}

// TestRoles_ComeAndGo_StreamContinues goes from full push to bouncers, to dividers, to other
// members and back.
func TestRoles_ComeAndGo_StreamContinues(t *testing.T) {
	e := start(t)
	tenant := e.Tenant(t, tenant("changed", 0, 0))
	pods := e.everywhere(t, tenant)
	flows := []*flow{e.stream(t, pods[0], pods[1], false), e.stream(t, pods[1], pods[2], true), e.stream(t, pods[2], pods[0], false)}
	bounce := func(n *int32) {
		t.Helper()
		for _, subnet := range tenant.Subnets {
			change(t, e, subnet, func(s *v1alpha1.Subnet) { s.Spec.Bouncers = n })
		}
	}
	divide := func(n *int32) {
		t.Helper()
		change(t, e, tenant.VPC, func(v *v1alpha1.VPC) { v.Spec.Dividers = n })
	}
	bounce(ptr.To[int32](2))
	e.served(t, tenant, e.eligible, nil)
	e.relies(t, e.plain[0], tenant)

	e.label(t, e.eligible[0], false) // its node stops being eligible
	e.label(t, e.plain[1], true)
	e.served(t, tenant, []string{e.plain[1], e.eligible[1]}, nil)
	e.reach(t, pods...)

	e.label(t, e.eligible[0], true)
	bounce(ptr.To[int32](3))
	divide(ptr.To[int32](3))
	three := []string{e.plain[1], e.eligible[0], e.eligible[1]}
	e.served(t, tenant, three, three)
	e.reach(t, pods...)

	divide(ptr.To[int32](1))
	e.waits(t, "the VPC to have one divider", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(tenant.VPC), tenant.VPC)
		text := conditionOf(tenant.VPC.Status.Conditions)
		return strings.HasPrefix(text, "True") && len(tenant.VPC.Status.Dividers.Nodes) == 1, text, err
	})
	e.reach(t, pods...)

	divide(nil)
	bounce(nil)
	e.served(t, tenant, nil, nil)
	e.reach(t, pods...)
	for _, f := range flows {
		e.unharmed(t, f)
	}
}

// TestAddress_MovesToOtherNode_PeerFollows: a pod is created again with its address on another
// node.
func TestAddress_MovesToOtherNode_PeerFollows(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("moved", 2, 0))
	peer := tenant.Pod("peer", scene.OnNode(e.plain[0]))
	const nic = `{"ip": "10.10.1.77,fd10:10:0:1::77"}`
	db := tenant.Pod("db", scene.OnNode(e.plain[1]), scene.WithNIC(nic))
	e.Run(t, peer, db)
	e.served(t, tenant, e.eligible, nil)
	e.relies(t, e.plain[0], tenant)
	for _, node := range []string{e.eligible[0], e.plain[0], e.eligible[1], e.plain[1]} {
		e.ExpectAnswers(t, peer, stage.WantPod(db)) // so that the peer's node has a row
		if err := e.Delete(stage.Within(t, stage.Patience), db); err != nil {
			t.Fatal(err)
		}
		db = tenant.Pod("db", scene.OnNode(node), scene.WithNIC(nic))
		e.Run(t, db)
		e.ExpectAnswers(t, peer, stage.WantPod(db))
		e.ExpectAnswers(t, db, stage.WantPod(peer))
	}
}

// TestSubnet_TooFewRoleNodes_LabelNamed: the members that there are serve.
func TestSubnet_TooFewRoleNodes_LabelNamed(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("few", 3, 0))
	subnet := tenant.Subnets[0]
	e.waits(t, "the Subnet to name the label", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(subnet), subnet)
		text := conditionOf(subnet.Status.Conditions)
		return strings.HasPrefix(text, "False "+v1alpha1.TooFewRoleNodesReason) && strings.Contains(text, v1alpha1.RoleNodeLabel+"=true"), text, err
	})
	e.served(t, tenant, e.eligible, nil)
}
