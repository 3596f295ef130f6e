// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// TestTenantMount_NodeFolder_Refused mounts folders of the node where no level of Pod Security is
// enforced. The Network of the tenant reports this.
func TestTenantMount_NodeFolder_Refused(t *testing.T) {
	t.Parallel()
	e := start(t)
	tenant := e.Tenant(t, stage.Overlapping("mounts"))
	admin := e.adminOf(t, tenant.Namespace.Name)
	for _, path := range []string{"/run/alioth", "/var/run//alioth/", "/run/containerd", "/var/lib/kubelet", "/etc", "/"} {
		wantRefused(t, admin, tenant.Pod("mounts", withFolder(path)), "tenants do not mount these folders of the node")
	}
	wantRefused(t, admin, tenant.Pod("writes", withFolder("/srv")), "folders of the node are read-only for tenants")

	var list arktosv1.NetworkList
	if err := e.Client.List(stage.Within(t, stage.Patience), &list, client.InNamespace(tenant.Namespace.Name)); err != nil || len(list.Items) == 0 {
		t.Fatalf("Networks of the tenant: %d, %v", len(list.Items), err)
	}
	network := &list.Items[0]
	e.awaitIsolated(t, network, true)
	e.awaitEvent(t, network, v1alpha1.PodSecurityMissingReason, tenant.Namespace.Name)
	label := fmt.Sprintf(`{"metadata":{"labels":{%q:"baseline"}}}`, v1alpha1.PodSecurityLabel)
	if err := e.Client.Patch(stage.Within(t, stage.Patience), tenant.Namespace, client.RawPatch(types.MergePatchType, []byte(label))); err != nil {
		t.Fatal(err)
	}
	e.awaitIsolated(t, network, false)
}

// awaitIsolated waits until a Network has, or lacks, the condition about isolation.
func (e *env) awaitIsolated(t *testing.T, network *arktosv1.Network, present bool) {
	t.Helper()
	err := scene.Until(stage.Within(t, stage.Patience), "the condition Isolated of a Network", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(network), network)
		got := meta.FindStatusCondition(network.Status.Conditions, v1alpha1.IsolatedCondition)
		reported := got != nil && got.Status == metav1.ConditionFalse && got.Reason == v1alpha1.PodSecurityMissingReason
		return reported == present && (got != nil) == present, fmt.Sprintf("%+v", got), err
	})
	if err != nil {
		t.Fatal(err)
	}
}
