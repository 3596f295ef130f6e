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
	Name: "creation-without-a-controller", Source: "kubeovn/kube-ovn#1769", Kind: restarts,
	Input:  "Pods, and a subnet with a pod of its own, are created while no operator runs.",
	Want:   "All of them get their addresses once an operator leads, without a hand.",
	Outage: noOperators,
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("early"))
		var pods []*corev1.Pod
		for i, node := range []string{first, second, first, second} {
			pods = append(pods, tenant.Pod(fmt.Sprintf("pod-%d", i), scene.OnNode(node)))
		}
		late := scene.Subnet(tenant.VPC.Name, "late", "10.10.7.0/24")
		tenant.Subnets = append(tenant.Subnets, late)
		inLate := tenant.Pod("late", scene.OnNode(first), scene.WithNIC(`{"subnet": "late"}`))
		noOperators.during(t, func() {
			l.create(t, append(pods, inLate)...)
			if err := l.Create(patience(t), late); err != nil {
				t.Fatal(err)
			}
		})
		l.ready(t, append(pods, inLate)...)
		l.expectOwn(t, 2, pods...)
		l.expectOwn(t, 1, inLate)
		l.ExpectAnswers(t, pods[0], stage.WantPod(pods[1]))
	},
})
