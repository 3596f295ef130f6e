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
	Name: "runtime-dies-while-pods-start", Source: "containerd/containerd#7010", Kind: restarts,
	Input:  "The container runtime is killed while it starts pods: the first of them has its interface already.",
	Want:   "All pods start with addresses of their own, and nothing is left of the first attempts.",
	Outage: noRuntime,
	Run: func(t *testing.T, l *lab) {
		_, second := l.Nodes()
		tenant := l.Tenant(t, stage.Overlapping("runtime"))
		var pods []*corev1.Pod
		for i := range 6 {
			pods = append(pods, tenant.Pod(fmt.Sprintf("pod-%d", i), scene.OnNode(second)))
		}
		l.create(t, pods...)
		l.sandbox(t, second, pods[0])
		noRuntime.during(t, func() {})
		l.ready(t, pods...)
		l.expectOwn(t, 2, pods...)
		l.ExpectAnswers(t, pods[0], stage.WantPod(pods[5]))
	},
})
