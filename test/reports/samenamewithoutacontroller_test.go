// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var _ = kept(Report{
	Name: "same-name-without-a-controller", Source: "ovn-kubernetes/ovn-kubernetes#980", Kind: restarts,
	Input:  "While no operator runs, pods are deleted by force and created again with the same names on the other node.",
	Want:   "All of them start and are reached on their new node; the first ones hold nothing.",
	Outage: noOperators,
	Run: func(t *testing.T, l *lab) {
		first, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("moves"))
		asker := tenant.Pod("asker", scene.OnNode(first))
		before := []*corev1.Pod{tenant.Pod("db-0", scene.OnNode(first)), tenant.Pod("db-1", scene.OnNode(second))}
		after := []*corev1.Pod{tenant.Pod("db-0", scene.OnNode(second)), tenant.Pod("db-1", scene.OnNode(first))}
		l.Run(t, append(before, asker)...)
		noOperators.during(t, func() {
			l.forceDelete(t, before...)
			l.create(t, after...)
		})
		l.ready(t, after...)
		l.expectFreed(t, before...)
		l.expectOwn(t, 2, append(after, asker)...)
		for _, pod := range after {
			l.ExpectAnswers(t, asker, stage.WantPod(pod))
		}
	},
})
