// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// TestTenant_NetworkLabelMissing_StaysOutsideDefaultVPC leaves the network label away where the
// tenant has no Network, and asks from a VPC of its own for targets that the default VPC reaches.
func TestTenant_NetworkLabelMissing_StaysOutsideDefaultVPC(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	bare := scene.Namespace(stage.Unique("bare"), stage.Unique("bare"))
	e.Make(t, bare)
	if err := e.WaitForAccount(stage.Within(t, stage.Patience), bare.Name); err != nil {
		t.Fatal(err)
	}
	lost := scene.Pod(bare.Name, "lost", scene.OnNode(first))
	if err := e.adminOf(t, bare.Name).Create(stage.Within(t, stage.Patience), lost); err != nil {
		t.Fatal(err)
	}
	e.awaitEvent(t, lost, v1alpha1.NoDefaultNetworkReason, `may not use the default VPC: name a Network`)
	err := scene.Until(stage.Within(t, stage.Patience), "the condition of a pod without a network", func(ctx context.Context) (bool, string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(lost), lost)
		condition := scene.NetworkCondition(lost)
		return condition != nil && condition.Status == corev1.ConditionFalse &&
				condition.Reason == v1alpha1.NoDefaultNetworkReason, fmt.Sprintf(
				"%+v",
				condition,
			), err
	})
	if err != nil {
		t.Fatal(err)
	}
	if held, err := e.Held(stage.Within(t, stage.Patience), lost.UID); err != nil || len(held) > 0 || len(scene.IPs(lost)) > 0 {
		t.Errorf("it holds %v and has %v, %v", held, scene.IPs(lost), err)
	}

	spec := stage.Overlapping("outsider")
	spec.Egress = v1alpha1.EgressMasquerade
	tenant := e.Tenant(t, spec)
	pod := tenant.Pod("asker", scene.OnNode(second))
	e.Run(t, pod)
	var closed []string
	for _, node := range e.Lab.Nodes() {
		for _, port := range []uint16{10250, 10256, 6443} {
			closed = append(closed, scene.TargetPort("connect", node.IPv4, port), scene.TargetPort("connect", node.IPv6, port))
		}
	}
	for _, ip := range e.nameServers(t) {
		closed = append(closed, scene.TargetPort("connect", ip, 53), scene.TargetPort("connect", ip, 8080), scene.TargetPort("connect", ip, 9153))
	}
	results, err := e.Ask(stage.Within(t, stage.Patience), pod, silenceTime, closed...)
	if err != nil || len(results) != len(closed) {
		t.Fatalf("%d results of %d, %v", len(results), len(closed), err)
	}
	for _, result := range results {
		if result.OK {
			t.Errorf("%s lets a tenant connect", result.Target)
		}
	}
	kubernetes := &corev1.Service{}
	if err := e.Client.Get(stage.Within(t, stage.Patience), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, kubernetes); err != nil {
		t.Fatal(err)
	}
	shared := scene.TargetPort("connect", netip.MustParseAddr(kubernetes.Spec.ClusterIP), 443)
	if results, err := e.Ask(stage.Within(t, stage.Patience), pod, answerTime, shared); err != nil || len(results) != 1 || !results[0].OK {
		t.Errorf("the shared Kubernetes API: %+v, %v", results, err)
	}
}

// nameServers returns the addresses of cluster DNS's pods.
func (e *env) nameServers(t *testing.T) []netip.Addr {
	t.Helper()
	var pods corev1.PodList
	if err := e.Client.List(stage.Within(t, stage.Patience), &pods, client.InNamespace("kube-system"), client.MatchingLabels{"k8s-app": "kube-dns"}); err != nil {
		t.Fatal(err)
	}
	var ips []netip.Addr
	for i := range pods.Items {
		ips = append(ips, scene.IPs(&pods.Items[i])...)
	}
	if len(ips) == 0 {
		t.Fatal("cluster DNS has no pods")
	}
	return ips
}
