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
	Name: "subnet-deleted-with-its-pods", Source: "kubeovn/kube-ovn#4898", Kind: addresses,
	Input: "Pods are created in a subnet, and deleted together with the subnet before their addresses are known.",
	Want:  "Pods, addresses and the subnet go. A subnet of the same name serves again.",
	Run: func(t *testing.T, l *lab) {
		_, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("race"))
		inNet := scene.WithNIC(`{"subnet": "net2"}`)
		var pods []*corev1.Pod
		for i := range 5 {
			pod := tenant.Pod(fmt.Sprintf("pod-%d", i), scene.OnNode(second), inNet)
			l.create(t, pod)
			l.forceDelete(t, pod)
			pods = append(pods, pod)
		}
		subnet := tenant.Subnets[1]
		if err := l.Delete(patience(t), subnet); err != nil {
			t.Fatal(err)
		}
		l.expectFreed(t, pods...)
		l.expectNoAddress(t, tenant.VPC.Name)
		again := scene.Subnet(tenant.VPC.Name, "net2", subnet.Spec.CIDRs...)
		if err := l.Create(patience(t), again); err != nil {
			t.Fatal(err)
		}
		tenant.Subnets[1] = again
		l.Run(t, tenant.Pod("again", scene.OnNode(second), inNet))
	},
})
