// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "namespace-ends-while-pods-start", Source: "kubernetes/kubernetes#56929", Kind: addresses,
	Input: "A namespace is deleted while its pods are being started on both nodes.",
	Want:  "The pods and the namespace go, and no address is held any more.",
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("short"))
		var pods []*corev1.Pod
		for i, node := range []string{first, second, first, second, first, second} {
			pods = append(pods, tenant.Pod(fmt.Sprintf("pod-%d", i), scene.OnNode(node)))
		}
		l.create(t, pods...)
		l.sandbox(t, first, pods[0])
		if err := l.BeginToLeave(patience(t), tenant.Namespace); err != nil {
			t.Fatal(err)
		}
		l.expectFreed(t, pods...)
		l.expectNoAddress(t, tenant.VPC.Name)
		if err := l.WaitGone(patience(t), tenant.Namespace); err != nil {
			t.Error(err)
		}
	},
})
