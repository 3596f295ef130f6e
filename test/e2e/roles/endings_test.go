// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// TestPods_PeerEnds_OthersOnNodeStay deletes pods that a peer has spoken with, and creates one
// again with another address.
func TestPods_PeerEnds_OthersOnNodeStay(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("ended", 2, 0))
	peer := tenant.Pod("peer", scene.OnNode(e.plain[0]))
	var pods []*corev1.Pod
	for i := range 4 {
		pods = append(pods, tenant.Pod(fmt.Sprintf("pod-%d", i), scene.OnNode(e.plain[1])))
	}
	e.Run(t, append(pods, peer)...)
	e.served(t, tenant, e.eligible, nil)
	e.relies(t, e.plain[0], tenant)
	for _, pod := range pods {
		e.ExpectAnswers(t, peer, stage.WantPod(pod))
	}
	gone, stay := pods[:2], pods[2:]
	old := slices.Concat(scene.IPs(gone[0]), scene.IPs(gone[1]))
	e.gone(t, gone[0])
	e.gone(t, gone[1])
	for _, ip := range old { // a sandbox may outlive its Pod object, and answers pings
		e.forgotten(t, e.vni(t, tenant), fmt.Sprintf("address %s in ", ip))
	}
	e.silent(t, peer, old...)
	again := tenant.Pod(gone[0].Name, scene.OnNode(e.plain[1]), scene.WithNIC(`{"ip": "10.10.1.200,fd10:10:0:1::200"}`))
	e.Run(t, again)
	e.reach(t, append(stay, peer, again)...)
	e.silent(t, peer, old...)
}

// forgotten waits until no node has a row of a VNI whose key begins with a text.
func (e *env) forgotten(t *testing.T, vni uint32, begin string) {
	t.Helper()
	for _, node := range e.Lab.Nodes() {
		e.waits(t, fmt.Sprintf("node %s to have no row %q of VNI %d", node.Name, begin, vni), func(ctx context.Context) (bool, string, error) {
			dump, err := e.Dump(ctx, node.Name)
			left := slices.DeleteFunc(slices.Collect(maps.Keys(dump.Rows)), func(key string) bool {
				return !strings.HasPrefix(key, begin) || !strings.HasSuffix(key, fmt.Sprintf(" VNI %d", vni))
			})
			return len(left) == 0, strings.Join(left, "; "), err
		})
	}
}

// TestVPC_WithRolesEnded_NothingLeft ends a VPC one object after the other, after its numbers of
// members have changed.
func TestVPC_WithRolesEnded_NothingLeft(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, tenant("over", 2, 1))
	pods := e.everywhere(t, tenant)
	e.reach(t, pods...)
	for _, subnet := range tenant.Subnets {
		change(t, e, subnet, func(s *v1alpha1.Subnet) { s.Spec.Bouncers = ptr.To[int32](1) })
	}
	change(t, e, tenant.VPC, func(v *v1alpha1.VPC) { v.Spec.Dividers = ptr.To[int32](2) })
	e.awaitMembers(t, tenant, 2, 2)
	e.reach(t, pods...)
	vni := e.vni(t, tenant)
	for _, pod := range pods {
		e.gone(t, pod)
		e.forgotten(t, vni, fmt.Sprintf("address %s in ", scene.IP(pod, false)))
	}
	e.gone(t, tenant.Network)
	for i, subnet := range tenant.Subnets {
		e.gone(t, subnet)
		e.awaitMembers(t, tenant, 1-i, 2)
	}
	e.gone(t, tenant.VPC)
	e.awaitMembers(t, tenant, 0, 0)
	e.forgotten(t, vni, "")
	e.unlisted(t, tenant)
}

// gone deletes an object and waits until it is gone.
func (e *env) gone(t *testing.T, object client.Object) {
	t.Helper()
	if err := e.Delete(stage.Within(t, stage.Patience), object); err != nil {
		t.Fatal(err)
	}
}

// awaitMembers waits until the given numbers of bouncers and dividers of a VPC serve, and all of
// its members do.
func (e *env) awaitMembers(t *testing.T, tenant *scene.Tenant, bouncers, dividers int) {
	t.Helper()
	e.waits(t, fmt.Sprintf("%d bouncers and %d dividers", bouncers, dividers), func(ctx context.Context) (bool, string, error) {
		list, err := e.membersOf(ctx, tenant)
		text := strings.Join(list, ", ")
		return strings.Count(text, "Serving Bouncer") == bouncers && strings.Count(text, "Serving Divider") == dividers && len(list) == bouncers+dividers, text, err
	})
}

// membersOf returns every member of a VPC's roles, with its stage.
func (e *env) membersOf(ctx context.Context, tenant *scene.Tenant) (all []string, err error) {
	var list v1alpha1.RoleMemberList
	err = e.Client.List(ctx, &list, client.MatchingFields{"spec.vpc": tenant.VPC.Name})
	for _, m := range list.Items {
		all = append(all, fmt.Sprintf("%s %s of %q on %s", m.Spec.Stage, m.Spec.Role, m.Spec.Subnet, m.Spec.Node))
	}
	return all, err
}

// unlisted waits until no node reports that it lists members of a VPC.
func (e *env) unlisted(t *testing.T, tenant *scene.Tenant) {
	t.Helper()
	e.waits(t, "nodes to list no member", func(ctx context.Context) (bool, string, error) {
		var list v1alpha1.NodeRolesList
		err := e.Client.List(ctx, &list)
		for _, node := range list.Items {
			if slices.ContainsFunc(node.Spec.VPCs, func(v v1alpha1.ListedMembers) bool { return v.UID == string(tenant.VPC.UID) }) {
				return false, node.Name + " does", nil
			}
		}
		return err == nil, "", err
	})
}
