// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// TestKubelet_Restarted_KnownAtFirstProbe restarts the kubelet of a pod that is probed every
// second. At most one probe may fail. The test does not look at readiness meanwhile: a kubelet that
// starts takes a probed pod for unready until its own first probe, in any network.
func TestKubelet_Restarted_KnownAtFirstProbe(t *testing.T) {
	e := start(t)
	_, second := e.Nodes()
	tenant := e.Tenant(t, stage.Overlapping("probed"))
	pod := tenant.Pod("probed", scene.OnNode(second), probed())
	e.Run(t, pod)
	e.waitProbes(t, pod, 1)
	before := e.failedProbes(t, pod)
	if err := e.Lab.RestartProcess(stage.Within(t, patience), second+"/kubelet"); err != nil {
		t.Fatal(err)
	}
	e.waitProbes(t, pod, 5)
	e.quiet(t) // so the kubelet has written its findings
	e.waitReady(t, pod)
	failed := e.failedProbes(t, pod) - before
	t.Logf("%d probes failed before the restart, %d after it", before, failed)
	if failed > 1 {
		t.Errorf("%d probes failed after the restart:\n%s", failed, e.Describe(stage.Within(t, patience), pod))
	}
	e.expectUnharmed(t, pod)
}

// waitProbes waits until a pod's server got a number of further messages.
func (e *env) waitProbes(t *testing.T, pod *corev1.Pod, more int) {
	t.Helper()
	before := -1
	e.waits(t, fmt.Sprint(more, " probes"), func(ctx context.Context) (bool, string, error) {
		seen, err := e.Seen(ctx, pod)
		if err != nil {
			return false, "", err
		}
		if before < 0 {
			before = len(seen)
		}
		return len(seen) >= before+more, fmt.Sprint(len(seen)-before, " were seen"), nil
	})
}

// failedProbes is how many failed probes of a pod the kubelet has reported.
func (e *env) failedProbes(t *testing.T, pod *corev1.Pod) (failed int32) {
	t.Helper()
	events, err := e.Events(stage.Within(t, patience), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		if event.Reason == "Unhealthy" {
			failed += max(event.Count, 1)
		}
	}
	return failed
}
