// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "crashing-pod-with-two-interfaces", Source: "k8snetworkplumbingwg/multus-cni#267", Kind: interfaces,
	Input: "The container of a pod with a second interface ends with an error again and again. The pod is deleted while no container runs.",
	Want:  "Both interfaces are detached, and a pod with the same fixed addresses starts.",
	Run: func(t *testing.T, l *lab) {
		_, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("crash"))
		network := l.network(t, tenant, "10.124.1.0/24")
		fixed := with(tenant, network, `"ip":"10.124.1.50"`)
		crashing, after := tenant.Pod("db-0", scene.OnNode(second), fixed, finishing("1")), tenant.Pod("db-0", scene.OnNode(second), fixed)
		crashing.Spec.RestartPolicy = corev1.RestartPolicyAlways
		l.create(t, crashing)
		until(t, "the container to wait for its next start", func(ctx context.Context) (bool, string, error) {
			err := l.Client.Get(ctx, client.ObjectKeyFromObject(crashing), crashing)
			waits := slices.ContainsFunc(crashing.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
				return s.RestartCount > 0 && s.State.Running == nil
			})
			return err == nil && waits, fmt.Sprintf("%+v", crashing.Status.ContainerStatuses), err
		})
		if err := l.Delete(patience(t), crashing); err != nil {
			t.Fatal(err)
		}
		l.RunFor(t, after)
		l.expectFreed(t, crashing)
		l.expectOwn(t, 3, after)
		until(t, "no claim of the first pod to be there", func(ctx context.Context) (bool, string, error) {
			var list v1alpha1.AttachmentClaimList
			err := l.Client.List(ctx, &list, client.InNamespace(after.Namespace))
			list.Items = slices.DeleteFunc(list.Items, func(c v1alpha1.AttachmentClaim) bool { return c.Spec.Pod.UID != string(crashing.UID) })
			return len(list.Items) == 0, fmt.Sprint(list.Items), err
		})
	},
})
